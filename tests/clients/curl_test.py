# tests/clients/curl_test.py: the examples of docs/HTTP.md, run as they stand there against a daemon of our own.
import os
import pathlib
import re
import subprocess
import unittest

from running_daemon import RunningDaemon

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "HTTP.md"


def examples():
    """Each curl command of the document, those that go on over a line's end in one."""
    text = DOCUMENT.read_text().replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.strip().startswith("curl ")]


class CurlTest(unittest.TestCase):
    def test_every_example_of_the_document_is_answered_without_an_error(self):
        daemon = RunningDaemon()
        self.addCleanup(daemon.close)
        config = daemon.folder / "ebb.toml"
        found = examples()
        self.assertGreater(len(found), 10)
        for example in found:
            with self.subTest(example):
                command = re.sub(r"(127\.0\.0\.1|localhost):\d+", f"127.0.0.1:{daemon.port}", example)
                command = command.replace("curl ", "curl -sS --max-time 5 -w '\\n%{http_code}' ", 1)
                ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, env={**os.environ, "KEY": "", "CONFIG": str(config)})
                status = ran.stdout.rsplit("\n", 1)[-1]
                endless = "/v1/events" in example and ran.returncode == 28
                self.assertTrue(endless or status.startswith("2"), ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
