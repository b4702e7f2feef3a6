# tests/comfy/support/programs.py: the tools and ebbd, run as a user runs them.
from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from ebb_sidecar.bus import Ebb  # noqa: E402

PATIENCE_S = 60.0


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def report(self) -> dict:
        return json.loads(self.out)


def _inherited() -> dict[str, str]:
    """What begins with EBB_ is ours, and to ebbd an unknown setting."""
    return {name: value for name, value in os.environ.items() if not name.startswith("EBB_")} | {"PYTHONDONTWRITEBYTECODE": "1"}


class Program:
    """A program that runs; its output is gathered."""

    def __init__(self, process: asyncio.subprocess.Process):
        self._process = process
        self.out = self.err = ""
        self._reading = asyncio.gather(self._read(process.stdout, "out"), self._read(process.stderr, "err"))

    @classmethod
    async def start(cls, *words, environment: dict[str, str] | None = None) -> Program:
        return cls(await asyncio.create_subprocess_exec(*map(str, words), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                                                        stderr=asyncio.subprocess.PIPE, env=_inherited() | (environment or {})))

    async def _read(self, stream: asyncio.StreamReader, name: str) -> None:
        while part := await stream.read(65536):
            setattr(self, name, getattr(self, name) + part.decode(errors="replace"))

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, which: int) -> None:
        self._process.send_signal(which)

    async def shows(self, text: str) -> None:
        await until(lambda: text in self.out + self.err or self._process.returncode is not None)
        if text not in self.out + self.err:
            raise AssertionError(f"ended with {self._process.returncode} before it showed {text!r}:\n{self.out}{self.err}")

    async def end(self, patience_s: float = PATIENCE_S) -> Outcome:
        try:
            code = await asyncio.wait_for(self._process.wait(), patience_s)
            await self._reading
        except asyncio.TimeoutError:
            self._process.kill()
            await self._process.wait()
            raise AssertionError(f"did not end within {patience_s} s:\n{self.out}{self.err}") from None
        return Outcome(code, self.out, self.err)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


async def until(true, patience_s: float = PATIENCE_S) -> None:
    """Until true(), which may be a coroutine function, is."""
    for _ in range(round(patience_s / 0.05)):
        said = true()
        if asyncio.iscoroutine(said):
            said = await said
        if said:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("did not come true")


class RunningEbbd:
    """A real ebbd with the demo model on two host cards of 11.7 MiB each."""

    def __init__(self, folder: Path):
        self.endpoint = f"ipc://{folder}/commands"
        self.state = folder / "state"
        self.client = Ebb(self.endpoint)
        self.program: Program | None = None

    async def start(self, *more: str) -> None:
        self.program = await Program.start(
            os.environ.get("EBBD_PROGRAM", ROOT / "build/release/tools/ebbd"), ROOT / "model/demo/chapbook-q4_k_m.gguf", "--set", "cards=host,host", "--set", "vram_segment_mib=1", "--set", "threads=1",
            "--set", f"bus.listen={self.endpoint}", "--set", f"state_dir={self.state}", *more)
        await self.program.shows("ebbd ready")

    async def kill(self) -> None:
        await self.program.kill()

    async def leases(self) -> list[dict]:
        return (await self.client.ask("lease", action="list"))["leases"]

    async def cache_mib(self, device: int = 0) -> float:
        return (await self.client.card(device))["expert_cache_mib"]


def tool(name: str) -> list[str]:
    return [sys.executable, str(ROOT / "tools" / name)]


__all__ = ["Outcome", "Program", "RunningEbbd", "tool", "until", "signal", "ROOT"]
