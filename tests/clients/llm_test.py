# tests/clients/llm_test.py: the chat program llm (https://llm.datasette.io), told of the daemon as its users tell it of any such API.
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from running_daemon import RunningDaemon


class LlmTest(unittest.TestCase):
    def setUp(self):
        self.daemon = RunningDaemon(key="a-key-of-its-own")
        self.addCleanup(self.daemon.close)
        home = tempfile.TemporaryDirectory(prefix="ebb-llm-")
        self.addCleanup(home.cleanup)
        self.model = self.daemon.ask("GET", "/v1/models")["data"][0]["id"]
        pathlib.Path(home.name, "extra-openai-models.yaml").write_text(
            f"- model_id: ebb\n  model_name: {self.model}\n  api_base: {self.daemon.url}/v1\n  api_key_name: ebb\n")
        pathlib.Path(home.name, "keys.json").write_text('{"ebb": "%s"}' % self.daemon.key)
        self.environment = {**os.environ, "LLM_USER_PATH": home.name, "PYTHONPATH": ""}

    def llm(self, *arguments):
        program = pathlib.Path(sys.executable).parent / "llm"
        return subprocess.run([program, *arguments], env=self.environment, capture_output=True, text=True, timeout=120)

    def test_it_prints_the_answer_streamed_and_whole_and_goes_on_with_the_conversation(self):
        options = ["-m", "ebb", "-o", "temperature", "0", "-o", "max_tokens", "40"]
        streamed = self.llm("prompt", "In the beginning", *options)
        self.assertEqual(streamed.returncode, 0, streamed.stderr)
        expected = self.daemon.answer_to("In the beginning", temperature=0, max_tokens=40)
        self.assertEqual(streamed.stdout.rstrip("\n"), expected.rstrip("\n"))
        whole = self.llm("prompt", "In the beginning", "--no-stream", *options)
        self.assertEqual(whole.stdout, streamed.stdout)
        more = self.llm("prompt", "And then?", "--continue", *options)
        self.assertEqual(more.returncode, 0, more.stderr)
        self.assertTrue(more.stdout.strip())

    def test_a_wrong_key_is_told_in_words(self):
        refused = self.llm("prompt", "hello", "-m", "ebb", "--key", "wrong")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("key", refused.stderr)


if __name__ == "__main__":
    unittest.main()
