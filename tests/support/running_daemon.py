# tests/support/running_daemon.py: an ebbd with the demo model on host cards, served over HTTP, in a folder of its own.
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

PATIENCE_S = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, condition, patience_s=PATIENCE_S):
    """The first true value of condition(); fails after a while, and says what was waited for."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {patience_s} s in vain until {what}")


class RunningDaemon:
    def __init__(self, key="", cards=2, config_file="", **settings):
        self._folder = tempfile.TemporaryDirectory(prefix="ebb-daemon-")
        self.folder = pathlib.Path(self._folder.name)
        self.port = free_port()
        self.key = key
        self.config_file = config_file  # in its folder; made if it is not there
        self.cards = cards
        self.settings = settings
        self.process = None
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        command = [os.environ["EBBD_PROGRAM"], os.environ["DEMO_MODEL"]]
        settings = {
            "cards": ",".join(["host"] * self.cards),
            "vram_segment_mib": "1",
            "threads": "1",
            "bus.listen": f"ipc://{self.folder}/commands",
            "bus.events": f"ipc://{self.folder}/events",
            "state_dir": f"{self.folder}/state",
            "http.listen": f"127.0.0.1:{self.port}",
        }
        settings.update(self.settings)
        if self.key:
            key_file = self.folder / "key"
            key_file.write_text(self.key + "\n")
            key_file.chmod(0o600)
            settings["http.api_key_file"] = str(key_file)
        if self.config_file:
            (self.folder / self.config_file).touch()
            command += ["--config", str(self.folder / self.config_file)]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        self._log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)
        until("ebbd is ready:\n" + (self.folder / "log").read_text(), self._is_ready)

    def _is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError("ebbd has ended: " + (self.folder / "log").read_text())
        try:
            return self.ask("GET", "/health")["status"] == "ok"
        except (urllib.error.URLError, ConnectionError):
            return False

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(PATIENCE_S)
        self._log.close()

    def close(self):
        self.end()
        self._folder.cleanup()

    @contextlib.contextmanager
    def slowed(self, run_ms=4, rest_ms=80):
        """Lets it run for a small part of the time, so that an answer of the small model takes long enough to do something meanwhile."""
        over = threading.Event()

        def hold():
            while not over.is_set() and self.process.poll() is None:
                self.process.send_signal(signal.SIGSTOP)
                time.sleep(rest_ms / 1000)
                self.process.send_signal(signal.SIGCONT)
                time.sleep(run_ms / 1000)

        holding = threading.Thread(target=hold)
        holding.start()
        try:
            yield
        finally:
            over.set()
            holding.join()

    # --- as another client

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method)
        if self.key:
            request.add_header("Authorization", "Bearer " + self.key)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return json.load(response)

    def answer_to(self, text, **options):
        """The whole answer, asked for without a stream and undisturbed."""
        said = self.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **options})
        return said["choices"][0]["message"]["content"]

    def card(self, device):
        return self.ask("GET", "/v1/cards")["cards"][device]

    def leases(self):
        return self.ask("GET", "/v1/vram/leases")["leases"]

    def release_all(self):
        for lease in self.leases():
            self.ask("DELETE", f"/v1/vram/leases/{lease['lease_id']}")
        self.ask("POST", "/v1/vram", {"reserve_mib": None})
