# tests/comfy/support/ebb_stand_in.py: an Ebb whose cards are on simulated GPUs, for what host cards cannot show: UUIDs, one GPU under two cards,
# and a free figure that other programs change. Commands `cards` and `lease`, as docs/BUS.md has them. Everything else is tested with the real one.
from __future__ import annotations

import asyncio
from pathlib import Path

import msgpack
import zmq
import zmq.asyncio

from .simulated_gpu import SimulatedGpu


class _Card:
    def __init__(self, device: int, gpu: SimulatedGpu, cache_mib: float, reserve_mib: int):
        self.device, self.gpu, self.full_mib, self.reserve_mib = device, gpu, cache_mib, reserve_mib
        self.who = f"ebb card {device}"
        self.together_mib = 0.0
        gpu.take(self.who, cache_mib)

    @property
    def cache_mib(self) -> float:
        return self.gpu.taken[self.who]

    def resize(self, mib: float) -> None:
        if mib < self.cache_mib:
            self.gpu.give(self.who, self.cache_mib - mib)
        else:
            self.gpu.take(self.who, mib - self.cache_mib)

    def report(self) -> dict:
        return {"device": self.device, "kind": "cuda", "reserve_mib": self.reserve_mib, "expert_cache_mib": self.cache_mib, "expert_cache_full_mib": self.full_mib,
                "vram_free_mib": self.gpu.free_mib, "short_mib": 0.0, "gpu": self.device, "gpu_name": self.gpu.name, "pci_address": self.gpu.pci_address,
                "uuid": self.gpu.uuid}


class EbbStandIn:
    def __init__(self, folder: Path, cards: list[tuple[SimulatedGpu, float]], reserve_mib: int = 700):
        self.endpoint = f"ipc://{folder}/ebb"
        self.cards = [_Card(device, gpu, cache, reserve_mib) for device, (gpu, cache) in enumerate(cards)]
        self.leases: dict[int, dict] = {}
        self.given: list[dict] = []
        self._answering: set[asyncio.Task] = set()
        self.after_grant = lambda: None  # what happens before the answer reaches anybody

    async def start(self) -> None:
        self._socket = zmq.asyncio.Context.instance().socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.bind(self.endpoint)
        self._serving = asyncio.ensure_future(self._serve())
        self._growing = asyncio.ensure_future(self._grow())

    async def stop(self) -> None:
        tasks = [self._serving, self._growing, *self._answering]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close()

    async def _serve(self) -> None:
        while True:
            client, frame = await self._socket.recv_multipart()
            answering = asyncio.ensure_future(self._reply(client, msgpack.unpackb(frame)))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)

    async def _reply(self, client: bytes, request: dict) -> None:
        until = asyncio.get_running_loop().time() + request.get("wait_s", 0)
        while True:
            try:
                body = self._answer(request)
                break
            except ValueError as why:
                code, text = why.args
                body = {"type": "error", "code": code, "text": text}
                if code != "short_of" or asyncio.get_running_loop().time() >= until:
                    break
            await asyncio.sleep(0.05)
        await self._socket.send_multipart([client, msgpack.packb({"v": 1, "id": request["id"], "last": True} | body)])

    def _answer(self, request: dict) -> dict:
        if request["cmd"] == "cards":
            return {"type": "cards", "cards": [card.report() for card in self.cards]}
        assert request["cmd"] == "lease", request
        action = request["action"]
        if action == "acquire":
            return {"type": "lease", "leases": [self._acquire(request)], "cards": [self.cards[request["device"]].report()], "warning": ""}
        if action == "list":
            return {"type": "lease", "leases": list(self.leases.values()), "cards": [], "warning": ""}
        if request["lease_id"] not in self.leases:
            raise ValueError("unknown_lease", f"there is no lease {request['lease_id']}")
        lease = self.leases[request["lease_id"]]
        if action == "release":
            del self.leases[lease["lease_id"]]
        return {"type": "lease", "leases": [lease], "cards": [], "warning": ""}

    def _lent_mib(self, card: _Card) -> int:
        return sum(lease["mib"] for lease in self.leases.values() if lease["device"] == card.device)

    def _acquire(self, request: dict) -> dict:
        card = self.cards[request["device"]]
        if self._lent_mib(card) == 0:
            card.together_mib = card.cache_mib + card.gpu.free_mib
        room = int(card.together_mib - card.reserve_mib - self._lent_mib(card))
        mib = min(request["mib"], room)
        if mib < (request.get("min_mib") or request["mib"]) or mib < 1:
            raise ValueError("short_of", f"card {card.device} has {room} MiB to lend, {request['mib'] - room} less than {request['mib']}")
        card.resize(min(card.cache_mib, max(0.0, card.together_mib - card.reserve_mib - self._lent_mib(card) - mib)))
        lease = {"lease_id": len(self.given) + 1, "owner": request["owner"], "device": card.device, "mib": mib, "ends_in_s": 60.0, "pid": request.get("pid", 0)}
        self.leases[lease["lease_id"]] = lease
        self.given.append(lease)
        self.after_grant()
        return lease

    async def _grow(self) -> None:
        while True:
            for card in self.cards:
                room = card.gpu.free_mib - card.reserve_mib
                if self._lent_mib(card):
                    room = min(room, card.together_mib - card.reserve_mib - self._lent_mib(card) - card.cache_mib)
                if room > 0:
                    card.resize(min(card.full_mib, card.cache_mib + room))
            await asyncio.sleep(0.05)
