# tests/clients/fuzz_test.py: requests that were damaged at random, over real connections of a real daemon, beside clients that leave when they like.
#
#   FUZZ_SECONDS=3600 FUZZ_SEED=7 fuzz_test.py    (20 s by default); a daemon under the address sanitizer finds most
#
# It must live, answer /health meanwhile and at the end, hold no session and no descriptor more than before, and give the answer it gave before.
import os
import random
import socket
import threading
import time
import unittest

from running_daemon import RunningDaemon, until

SECONDS = float(os.environ.get("FUZZ_SECONDS", "20"))
SEED = int(os.environ.get("FUZZ_SEED", str(random.SystemRandom().randrange(1 << 32))))
HOSTS = "Host: 127.0.0.1\r\n"


def request(method, path, body=b"", more=""):
    head = f"{method} {path} HTTP/1.1\r\n{HOSTS}{more}"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


CHUNKED = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
SEEDS = [
    request("GET", "/v1/status"), request("GET", "/metrics"), request("GET", "/v1/experts"), request("HEAD", "/"), request("GET", "/page/main.js"),
    request("GET", "/v1/events"), request("OPTIONS", "/v1/vram", more="Origin: http://127.0.0.1\r\nAccess-Control-Request-Method: POST\r\n"),
    request("POST", "/v1/vram", b'{"reserve_mib": 3, "gpu": 1}'), request("POST", "/v1/vram", b'{"reserve_mib": null}'),
    request("POST", "/v1/vram/plan", b'{"reserve_mib": 3}'),
    request("POST", "/v1/vram/leases", b'{"owner": "f", "gpu": 0, "mib": 2, "ttl_s": 1}', "Idempotency-Key: k\r\n"),
    request("PATCH", "/v1/vram/leases/1", b'{"ttl_s": 1}'), request("DELETE", "/v1/vram/leases/1"),
    request("PATCH", "/v1/config", b'{"vram_reserve_mib": 2}'),
    request("POST", "/tokenize", '{"content": "In the \u4e2d", "special": true}'.encode()), request("POST", "/detokenize", b'{"tokens": [40, 77, 259]}'),
    request("POST", "/v1/completions", b'{"prompt": ["In the", "And"], "max_tokens": 4, "n": 2, "logprobs": 2, "stream": true}'),
    request("POST", "/v1/chat/completions", b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "In"}]}], "max_tokens": 8, "stop": ["x"]}'),
    request("POST", "/v1/chat/completions", b'{"messages": [{"role": "user", "content": "In"}], "max_tokens": 300, "stream": true, "temperature": 1}'),
    request("POST", "/v1/vram", more=CHUNKED) + b'7\r\n{"reser\r\nf\r\nve_mib": 2      \r\n1\r\n}\r\n0\r\n\r\n',
]
WORDS = [b"\r\n", b"\r\n\r\n", b"\0", b"\xff\xfe", b"Content-Length: 99999999999\r\n", b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n",
         b"Connection: close\r\n", b"Range: bytes=0-\r\n", b"Host: evil\r\n", b"ffffffff\r\n", b"[" * 100, b'"' * 7, b"{}", b"1e999", b"null", b"-1", b"true",
         b"18446744073709551616", b"\\ud800", b"../", b"%2e%2e%00", b"?" * 50, b"a" * 20000]


def damaged(rng):
    text = bytearray(b"".join(rng.choices(SEEDS, k=rng.choice([1, 1, 1, 2, 4]))))
    for _ in range(rng.choice([0, 0, 1, 2, 5])):
        at = rng.randrange(len(text) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            text[at:at] = rng.choice(WORDS)
        elif kind == 1:
            del text[at : at + rng.choice([1, 2, 10, 100])]
        elif kind == 2 and text:
            text[at % len(text)] = rng.randrange(256)
        elif kind == 3:
            text[at:at] = text[at : at + rng.randrange(200)]
        else:
            del text[at:]
            if not text:
                text = bytearray(b"G")
    return bytes(text)


def play(port, rng, until_s):
    while time.monotonic() < until_s:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=rng.choice([0.01, 0.1, 0.5])) as link:
                text = damaged(rng)
                cut = rng.randrange(len(text) + 1) if rng.random() < 0.3 else len(text)
                link.sendall(text[:cut])
                if rng.random() < 0.2:
                    link.shutdown(socket.SHUT_WR)
                link.sendall(text[cut:]) if rng.random() < 0.8 else None
                for _ in range(rng.choice([0, 1, 5, 50])):
                    if not link.recv(rng.choice([1, 4096])):
                        break
        except OSError:
            pass


class FuzzTest(unittest.TestCase):
    def test_no_request_ends_the_daemon_or_leaves_anything_behind(self):
        daemon = RunningDaemon(config_file="ebb.toml")
        self.addCleanup(daemon.close)
        descriptors = lambda: len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
        whole = lambda: daemon.answer_to("In the beginning", max_tokens=20, temperature=0)
        expected, before = whole(), descriptors()
        print(f"FUZZ_SEED={SEED}", flush=True)
        end = time.monotonic() + SECONDS
        players = [threading.Thread(target=play, args=(daemon.port, random.Random(SEED + i), end)) for i in range(8)]
        for each in players:
            each.start()
        for each in players:
            each.join()
        self.assertIsNone(daemon.process.poll(), "the daemon has ended: " + (daemon.folder / "log").read_text()[-4000:])
        until("nothing is under way", lambda: daemon.ask("GET", "/v1/status")["sessions"] == 0)
        until("no connection is left", lambda: descriptors() <= before + 1, patience_s=180)  # one may be the asker's, at rest
        daemon.release_all()
        self.assertEqual(whole(), expected)
        self.assertNotIn("Sanitizer", (daemon.folder / "log").read_text())


if __name__ == "__main__":
    unittest.main()
