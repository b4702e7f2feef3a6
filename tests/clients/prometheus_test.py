# tests/clients/prometheus_test.py: /metrics as Prometheus' own parser reads it, and as promtool judges it where that is installed.
import pathlib
import shutil
import subprocess
import unittest
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from running_daemon import RunningDaemon

FETCHED = pathlib.Path(__file__).parents[2] / ".venv/prometheus/usr/bin/promtool"  # by tools/test
PROMTOOL = str(FETCHED) if FETCHED.exists() else shutil.which("promtool")


class PrometheusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = RunningDaemon(key="a-key-of-its-own")
        cls.addClassCleanup(cls.daemon.close)

    def text(self):
        request = urllib.request.Request(self.daemon.url + "/metrics", headers={"Authorization": "Bearer " + self.daemon.key})
        with urllib.request.urlopen(request) as response:
            self.assertEqual(response.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            return response.read().decode()

    def samples(self):
        return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in text_string_to_metric_families(self.text()) for s in f.samples}

    def test_counts_rise_with_an_answer_and_a_lease_is_seen_with_its_owner(self):
        before = self.samples()
        self.daemon.ask("POST", "/v1/vram/leases", {"owner": 'a "quoted" one\\', "gpu": 1, "mib": 5, "ttl_s": 60})
        self.daemon.answer_to("In the beginning", max_tokens=40, ignore_eos=True)
        after = self.samples()
        rose = lambda name, **labels: after[name, tuple(labels.items())] - before[name, tuple(labels.items())]
        self.assertEqual(rose("ebb_tokens_generated_total"), 40)
        self.assertEqual(rose("ebb_token_gap_seconds_count"), 39)
        self.assertGreater(rose("ebb_card_expert_hits_total", card="0"), 0)
        self.assertGreater(rose("ebb_card_expert_misses_total", card="1", way="cpu"), 0)
        self.assertEqual(rose("ebb_card_flips_total", card="1"), 1)
        self.assertLess(rose("ebb_card_cache_bytes", card="1"), 0)
        self.assertEqual(after["ebb_card_lent_bytes", (("card", "1"), ("owner", 'a "quoted" one\\'))], 5 << 20)
        buckets = [after[key] for key in after if key[0] == "ebb_token_gap_seconds_bucket"]
        self.assertEqual(buckets, sorted(buckets))
        self.assertEqual(buckets[-1], after["ebb_token_gap_seconds_count", ()])

    @unittest.skipUnless(PROMTOOL, "no promtool here; tools/test fetches it")
    def test_promtool_finds_no_fault(self):
        checked = subprocess.run([PROMTOOL, "check", "metrics"], input=self.text(), capture_output=True, text=True)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
