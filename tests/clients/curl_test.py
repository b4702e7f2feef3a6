# tests/clients/curl_test.py: the examples of docs/HTTP.md, run as they stand there, in their order, against a daemon of our own.
import os
import pathlib
import re
import subprocess
import unittest

from running_daemon import RunningDaemon

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "HTTP.md"


def examples():
    """Each curl command of the document's blocks, with the lines over which it goes on."""
    for block in re.findall(r"^```bash\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL):
        for command in re.split(r"^(?=curl )", block, flags=re.MULTILINE):
            if command.startswith("curl "):
                yield command


class CurlTest(unittest.TestCase):
    def test_every_example_of_the_document_is_answered_without_an_error(self):
        daemon = RunningDaemon(config_file="ebb.toml", host_card_mib="20000")
        self.addCleanup(daemon.close)
        (daemon.folder / "key").write_text("none-is-asked-for\n")
        found = list(examples())
        self.assertGreater(len(found), 15)
        for example in found:
            with self.subTest(example):
                lease = daemon.leases()[0]["lease_id"] if "/leases/7" in example else 7
                command = example.replace("/leases/7", f"/leases/{lease}").replace("curl ", "curl -sS --max-time 5 -w '\\n%{http_code}' ", 1)
                ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, cwd=daemon.folder,
                                     env={**os.environ, "EBB": daemon.url})
                goes_on = "/v1/events" in example and ran.returncode == 28  # events have no end
                self.assertTrue(goes_on or ran.stdout.rsplit("\n", 1)[-1].startswith("2"), ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
