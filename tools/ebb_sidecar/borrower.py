# tools/ebb_sidecar/borrower.py: memory for the jobs of one ComfyUI: lent when one comes, given back when none has come for a while.
#
# Jobs come from the gate, which waits until the memory is there, and from the queue, which is seen too late for that. Both only say what
# workflow it is; how much that needs was learned. A lease that is held is enlarged for a larger job and kept while jobs follow one another.
from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from . import cards
from .bus import Ebb, EbbError, NoDaemon
from .comfyui import ComfyUI, NoComfyUI
from .giving_back import give_back
from .lease import Lease, acquire_on_gpu
from .memory import TOLERANCE_MIB, Memory
from .outcome import Failure
from .peaks import Bounds, Peaks

FREE_S = 30.0


@dataclass(frozen=True)
class Terms:
    device: str
    bounds: Bounds
    linger_s: float
    wait_s: int


class Borrower:
    def __init__(self, name: str, ebb: Ebb, comfyui: ComfyUI, terms: Terms, peaks: Peaks, say: Callable[[str], None]):
        self._name, self._ebb, self._comfyui, self._terms, self._peaks, self._say = name, ebb, comfyui, terms, peaks, say
        self._choice: cards.Choice | None = None
        self._memory: Memory | None = None
        self._leases: list[Lease] = []
        self._asked_mib = 0  # for which leases were asked; less may have been granted
        self._base = 0.0  # what was free, and Ebb's, before the first of them
        self._coming = 0  # jobs that are on their way into the queue
        self._busy_at = time.monotonic()
        self._changing = asyncio.Lock()
        self._in_vain_at = float("-inf")
        self._in_vain_s = 0.0  # that took
        self._told = ""

    @property
    def lent_mib(self) -> int:
        return sum(lease.mib for lease in self._leases)

    def forget_card(self) -> None:
        """Another ComfyUI may answer there next time."""
        if not self._leases:
            self._choice = None

    # --- for a job

    @contextlib.asynccontextmanager
    async def memory_for(self, workflow: str):
        """While a job is on its way into the queue: its memory is lent, as far as there is any, and is not given back."""
        self._coming += 1
        try:
            await self.ensure(self._peaks.need_mib(workflow, self._terms.bounds))
            yield
        finally:
            self._coming -= 1
            self._busy_at = time.monotonic()

    async def ensure(self, mib: int, again_s: float = 0.0) -> None:
        """Never fails: a job without its memory is slow, and its owner is not to blame. `again_s`: not so soon after it was in vain."""
        self._busy_at = time.monotonic()
        if mib <= self._asked_mib or self._is_too_soon(again_s):
            return
        async with self._changing:
            if mib <= self._asked_mib or self._is_too_soon(again_s):
                return
            began = time.monotonic()
            try:
                await self._enlarge(mib)
                return
            except (NoDaemon, NoComfyUI) as why:
                self._tell_once(f"{why}; jobs run in what is free")
            except EbbError as why:
                self._tell_once(f"Ebb lends nothing ({why.code}: {why.text}); jobs run in what is free")
            except Failure as why:
                self._tell_once(why.text())
            self._in_vain_at = time.monotonic()
            self._in_vain_s = self._in_vain_at - began

    def _is_too_soon(self, again_s: float) -> bool:
        """An Ebb that is there and gives no answer costs one job in a while its time, not each."""
        return time.monotonic() < self._in_vain_at + max(again_s, 5.0 * self._in_vain_s if self._in_vain_s > 1.0 else 0.0)

    async def _enlarge(self, mib: int) -> None:
        began = time.monotonic()
        choice = await self._card()
        if not self._leases:
            self._base = await self._memory.others()
        extra = mib - self.lent_mib
        self._leases += await acquire_on_gpu(self._ebb, f"comfyui {self._comfyui.url}", choice.devices, extra, self._say, min_mib=1, wait_s=self._terms.wait_s)
        self._asked_mib, self._told = mib, ""
        short = f", {mib - self.lent_mib} too few" if self.lent_mib < mib else ""
        self._say(f"{self._name}: lent {self.lent_mib} MiB of card {choice.devices[0]}{short} in {(time.monotonic() - began) * 1000:.0f} ms")

    async def _card(self) -> cards.Choice:
        if self._choice is None:
            choice = await cards.choose(self._comfyui.url, await self._comfyui.stats(), await self._ebb.cards(), self._terms.device)
            for note in choice.notes:
                self._say(f"{self._name}: {note}")
            self._choice, self._memory = choice, Memory(self._ebb, choice.devices, choice.uuid)
        return self._choice

    def _tell_once(self, text: str) -> None:
        if text != self._told:
            self._say(f"{self._name}: {text}")
        self._told = text

    # --- what it takes

    async def taken_mib(self) -> float | None:
        """Of the card, by ComfyUI, since the first lease; None: not known."""
        if not self._leases or self._memory is None:
            return None
        figure = await self._memory.others()
        return max(0.0, self._base - figure) if self._memory.known else None

    def busy(self) -> None:
        self._busy_at = time.monotonic()

    # --- and back

    async def give_back_if_idle(self, is_idle: Callable[[], Awaitable[bool]]) -> None:
        if not self._leases or self._coming or time.monotonic() - self._busy_at < self._terms.linger_s:
            return
        async with self._changing:
            if self._coming or not await is_idle():
                return
            began = time.monotonic()
            back = await give_back(self._comfyui, self._memory.others, self._base - TOLERANCE_MIB, FREE_S, 0.0, wanted=lambda: self._coming > 0)
            if self._coming or back.busy or back.silent:
                return  # the lease is wanted again
            await self._end()
            if back.back:
                self._say(f"{self._name}: given back after {back.posts} request(s) to let go, {time.monotonic() - began:.2f} s")
            else:
                self._say(f"{self._name}: ComfyUI keeps {back.missing_mib:.0f} MiB after {FREE_S:.0f} s and {back.posts} requests to let go; the lease has ended, and Ebb takes what is free")

    async def end(self) -> None:
        """The sidecar stops: a job that runs goes on in what it has, and Ebb takes what is free."""
        async with self._changing:
            await self._end()

    async def _end(self) -> None:
        leases, self._leases, self._asked_mib = self._leases, [], 0
        for lease in leases:
            if not await lease.end(5.0):
                self._say(f"{self._name}: Ebb does not answer; lease {lease.id} ends with this process")
