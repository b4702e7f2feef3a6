# tools/ebb_sidecar/memory.py: how much of the lent card is free, by the driver, and what of it ComfyUI has taken.
from __future__ import annotations

from . import gpus
from .bus import Ebb, EbbError, NoDaemon

TOLERANCE_MIB = 256.0  # a desktop beside it, and what allocators round up


class Memory:
    """Ebb reads the driver for each answer; nvidia-smi reads it too where a card has a UUID and Ebb does not answer."""

    def __init__(self, ebb: Ebb, devices: list[int], uuid: str):
        self._ebb, self._devices, self._uuid = ebb, devices, uuid
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

    async def others(self) -> float:
        """A figure that goes down by what others take, whatever Ebb's caches do. Only its differences mean something."""
        await self.look()
        return self.free + self.cache
