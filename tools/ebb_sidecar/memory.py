# tools/ebb_sidecar/memory.py: how much of the lent card is free, by the driver, and what of it ComfyUI has taken.
#
# Where the driver shows ComfyUI's process, its own figure is used. Elsewhere (containers) it is what is missing on the card beside Ebb's
# caches, of which other programs on that card have their part.
from __future__ import annotations

from . import gpus
from .bus import Ebb, EbbError, NoDaemon

TOLERANCE_MIB = 256.0  # a desktop beside it, and what allocators round up


class Memory:
    """Ebb reads the driver for each answer; nvidia-smi reads it too where a card has a UUID and Ebb does not answer."""

    def __init__(self, ebb: Ebb, devices: list[int], uuid: str, pid: int | None = None):
        self._ebb, self._devices, self._uuid, self._pid = ebb, devices, uuid, pid
        self.by_process = False  # decided by begin()
        self._figure = 0.0
        self.free: float = 0.0
        self.known = False  # whether the last look showed anything
        self.cache: float = 0.0  # of Ebb's cards there
        self.reserve: int = 0

    async def look(self) -> float:
        """MiB that are free; the last figure, and not `known`, where nobody tells."""
        try:
            cards = [card for card in await self._ebb.cards() if card["device"] in self._devices]
        except (NoDaemon, EbbError):
            cards = []
        if cards:
            # Host cards have memory of their own each; cards of one GPU show one figure.
            self.free, self.known = min(card["vram_free_mib"] for card in cards), True
            self.cache = sum(card["expert_cache_mib"] for card in cards)
            self.reserve = max(card["reserve_mib"] for card in cards)
            return self.free
        by_driver = await gpus.free_mib_of(self._uuid) if self._uuid else None
        self.known = by_driver is not None
        if by_driver is not None:
            self.free = float(by_driver)
        return self.free

    async def begin(self) -> float:
        """The first of figures that go down by what ComfyUI takes, whatever Ebb's caches do. Only their differences mean something."""
        used = await gpus.used_mib_on(self._uuid) if self._uuid and self._pid else None
        self.by_process = used is not None and self._pid in used
        return await self.figure()

    async def figure(self) -> float:
        if not self.by_process:
            await self.look()
            return self.free + self.cache
        used = await gpus.used_mib_on(self._uuid)
        self.known = used is not None and self._pid in used
        if used is not None:
            self._figure = -used.get(self._pid, 0.0)  # of a process that has ended nothing is left
        return self._figure
