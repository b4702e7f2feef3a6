# tests/comfy/support/cases.py: what a test starts from: a folder, ComfyUI's stand-in and an Ebb, all of which end with it.
from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from .comfyui_stand_in import ComfyUIStandIn
from .ebb_stand_in import EbbStandIn
from .graphs import Graph
from .programs import Ebb, Outcome, Program, RunningEbbd, tool
from .simulated_gpu import SimulatedGpu


class Case(unittest.IsolatedAsyncioTestCase):
    def folder(self) -> Path:
        folder = tempfile.TemporaryDirectory(prefix="ebb-comfy-")
        self.addCleanup(folder.cleanup)
        return Path(folder.name)

    def file_of(self, graph: Graph) -> Path:
        path = self.folder() / "workflow.json"
        path.write_text(json.dumps(graph))
        return path

    async def comfyui(self, **how) -> ComfyUIStandIn:
        stand_in = ComfyUIStandIn(**how)
        await stand_in.start()
        self.addAsyncCleanup(stand_in.die)
        return stand_in

    async def ebbd(self, *settings: str) -> RunningEbbd:
        daemon = RunningEbbd(self.folder())
        await daemon.start(*settings)
        self.addAsyncCleanup(daemon.kill)
        return daemon

    async def ebb_on(self, *cards: tuple[SimulatedGpu, float], reserve_mib: int = 700) -> EbbStandIn:
        stand_in = EbbStandIn(self.folder(), list(cards), reserve_mib)
        await stand_in.start()
        self.addAsyncCleanup(stand_in.stop)
        return stand_in

    async def lent_elsewhere(self, ebb: EbbStandIn, mib: int, owner: str = "a game") -> int:
        """The number of a lease that somebody else holds."""
        answer = await Ebb(ebb.endpoint).ask("lease", action="acquire", owner=owner, device=0, mib=mib, ttl_s=100)
        return answer["leases"][0]["lease_id"]

    async def start_tool(self, name: str, *words, environment: dict[str, str] | None = None) -> Program:
        program = await Program.start(*tool(name), *words, environment=environment)
        self.addAsyncCleanup(program.kill)
        return program

    async def start_handoff(self, graph: Graph, need_mib: int, comfyui, ebb, *more, device: str = "0", environment: dict[str, str] | None = None) -> Program:
        return await self.start_tool("comfy_vram_handoff.py", self.file_of(graph), "--need", need_mib, "--device", device, "--comfyui", comfyui.url,
                                     "--connect", ebb.endpoint, "--json", *more, environment=environment)

    async def handoff(self, *what, **how) -> Outcome:
        return await (await self.start_handoff(*what, **how)).end()
