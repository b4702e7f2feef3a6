# tests/clients/flood_test.py: more than a daemon can serve at once, and connections that do nothing.
import http.client
import json
import resource
import socket
import threading
import time
import unittest
import urllib.error

from running_daemon import RunningDaemon

ASK = json.dumps({"messages": [{"role": "user", "content": "In the beginning"}], "max_tokens": 64, "ignore_eos": True})
JSON = {"Content-Type": "application/json"}


def post(port, path, body, results):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        link.request("POST", path, body, JSON)
        answer = link.getresponse()
        results.append((answer.status, answer.getheader("Retry-After"), answer.read()))
    except OSError as why:
        results.append((0, None, str(why)))
    finally:
        link.close()


class FloodTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))  # the daemon's too, which is started with it
        cls.daemon = RunningDaemon()
        cls.addClassCleanup(cls.daemon.close)

    def first_byte_ms(self):
        """Of somebody who comes again when told to."""
        began = time.monotonic()
        while True:
            try:
                self.daemon.ask("GET", "/v1/vram")
                return (time.monotonic() - began) * 1000
            except urllib.error.HTTPError as refused:
                self.assertEqual(refused.code, 503)
                time.sleep(int(refused.headers["Retry-After"]))

    def test_of_four_hundred_answers_at_once_each_is_given_whole_or_refused_with_a_time_to_come_again(self):
        results = []
        threads = [threading.Thread(target=post, args=(self.daemon.port, "/v1/chat/completions", ASK, results)) for _ in range(400)]
        for each in threads:
            each.start()
        worst_ms = max(self.first_byte_ms() for _ in range(20))
        for each in threads:
            each.join()
        self.assertEqual(len(results), 400)
        self.assertLessEqual({status for status, _, _ in results}, {200, 429, 503})
        given = [json.loads(body) for status, _, body in results if status == 200]
        refused = [(after, body) for status, after, body in results if status != 200]
        self.assertGreater(len(given), 0)
        self.assertGreater(len(refused), 0)
        self.assertEqual(len({answer["choices"][0]["message"]["content"] for answer in given}), 1)
        for after, body in refused:
            self.assertGreater(int(after), 0)
            self.assertIn("error", json.loads(body))
        self.assertLess(worst_ms, 5000)
        self.assertEqual(self.daemon.ask("GET", "/health")["status"], "ok")

    def test_a_thousand_idle_connections_keep_nobody_waiting(self):
        idle = [socket.create_connection(("127.0.0.1", self.daemon.port)) for _ in range(1000)]
        try:
            for each in idle[:500]:
                each.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                self.assertIn(b" 200 ", each.recv(4096))  # and now at rest between two requests
            times = sorted(self.first_byte_ms() for _ in range(50))
            self.assertLess(times[25], 100)
            results = []
            post(self.daemon.port, "/v1/chat/completions", ASK, results)
            self.assertEqual(results[0][0], 200)
        finally:
            for each in idle:
                each.close()

    def test_a_client_that_sends_its_head_byte_by_byte_is_let_go_and_holds_nobody_up(self):
        slow = [socket.create_connection(("127.0.0.1", self.daemon.port)) for _ in range(300)]
        try:
            for each in slow:
                each.sendall(b"GET /v1/st")
            self.assertLess(self.first_byte_ms(), 1000)
            began = time.monotonic()
            slow[0].settimeout(30)
            while time.monotonic() - began < 25:
                try:
                    slow[0].sendall(b"a")
                    slow[0].settimeout(1)
                    if slow[0].recv(1000) is not None:
                        break
                except socket.timeout:
                    continue
                except OSError:
                    break
            self.assertLess(time.monotonic() - began, 20)
        finally:
            for each in slow:
                each.close()


if __name__ == "__main__":
    unittest.main()
