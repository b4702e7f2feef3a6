# tests/comfy/support/sidecar_case.py: what a test of tools/comfy_sidecar.py starts from: one GPU, which ComfyUI's stand-in and Ebb's share.
from __future__ import annotations

import os

import aiohttp

from .cases import Case
from .programs import until
from .real_comfyui import free_port
from .simulated_gpu import SimulatedGpu, write_nvidia_smi


class SidecarCase(Case):
    async def asyncSetUp(self):
        self.gpu = SimulatedGpu(24000)
        self.server = await self.comfyui(gpu=self.gpu)
        self.ebb = await self.ebb_on((self.gpu, 22000))
        self.state = self.folder()
        self.peaks = self.state / "peaks.json"
        self.session = aiohttp.ClientSession()
        self.addAsyncCleanup(self.session.close)
        write_nvidia_smi(self.state, [], {})

    async def sidecar(self, *more, server=None, ebb=None, listen=True, device="0"):
        self.port = free_port()
        program = await self.start_tool(
            "comfy_sidecar.py", "--comfyui", (server or self.server).url, "--connect", (ebb or self.ebb).endpoint, "--device", device, "--peaks-file", self.peaks,
            *(["--listen", f"127.0.0.1:{self.port}"] if listen else []), *more, environment={"PATH": f"{self.state}:{os.environ['PATH']}"})
        await program.shows(f"open http://127.0.0.1:{self.port}" if listen else "its queue is watched")
        return program

    @property
    def gate(self):
        return f"http://127.0.0.1:{self.port}"

    async def post_to(self, url, graph, path="/prompt"):
        async with self.session.post(url + path, json={"prompt": graph}) as answer:
            return answer.status, await answer.json()

    async def is_done(self, id):
        async with self.session.get(f"{self.server.url}/history/{id}") as answer:
            return id in await answer.json()

    async def runs(self, graph, url=None):
        status, answer = await self.post_to(url or self.gate, graph)
        self.assertEqual(status, 200, answer)
        await until(lambda: self.is_done(answer["prompt_id"]))
        return answer["prompt_id"]

    async def nothing_is_lent(self):
        return not self.ebb.leases
