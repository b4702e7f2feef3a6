# tests/comfy/support/real_comfyui.py: the real ComfyUI on the CPU, with our nodes, in a folder of its own.
#
# EBB_COMFYUI is the folder of its source, EBB_COMFYUI_PYTHON the Python that has its packages (docs/COMFYUI.md, Tests).
from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
START_S = 120


def source() -> Path | None:
    folder = os.environ.get("EBB_COMFYUI")
    return Path(folder) if folder else None


def why_not() -> str:
    """Why there is no real ComfyUI to test with; empty: there is."""
    if source() is None:
        return "EBB_COMFYUI does not name the source of a ComfyUI"
    if not (source() / "main.py").exists():
        return f"EBB_COMFYUI={source()} has no main.py"
    return ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RealComfyUI:
    def __init__(self, folder: Path, port: int | None = None, environment: dict[str, str] | None = None):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        self._environment = environment or {}
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        nodes = self.folder / "custom_nodes"
        if not nodes.exists():
            nodes.mkdir(parents=True)
            (self.folder / "user").mkdir()
            shutil.copytree(HERE / "ebb_test_nodes", nodes / "ebb_test_nodes", ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copytree(ROOT / "tools" / "comfyui_nodes", nodes / "ebb", ignore=shutil.ignore_patterns("__pycache__"))
        python = os.environ.get("EBB_COMFYUI_PYTHON", "python3")
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [python, "main.py", "--cpu", "--listen", "127.0.0.1", "--port", str(self.port), "--base-directory", str(self.folder), "--disable-api-nodes",
                 "--disable-metadata", "--dont-print-server"], cwd=source(), stdout=log, stderr=log, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | self._environment)
        until = time.monotonic() + START_S
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("ComfyUI did not start: " + (self.folder / "log").read_text()[-2000:])
            time.sleep(0.2)

    @property
    def pid(self) -> int:
        return self._process.pid

    def answers(self) -> bool:
        try:
            self.get("/prompt")
            return True
        except OSError:
            return False

    def get(self, path: str) -> dict:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.load(answer)

    def post(self, path: str, body: dict) -> tuple[int, dict]:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read() or b"{}")

    def stop(self, how: int = signal.SIGKILL) -> None:
        if self._process and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait()
