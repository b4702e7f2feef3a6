# tools/ebb_sidecar/borrower.py: memory for the jobs of one ComfyUI: lent when one comes, given back when none has come for a while.
#
# Jobs come from the gate, which waits until the memory is there, and from the queue, which is seen too late for that. Both only say what
# workflow it is; how much that needs was learned. A lease that is held is enlarged for a larger job and kept while jobs follow one another.
from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from . import cards
from .bus import Ebb, EbbError, NoDaemon
from .comfyui import ComfyUI, NoComfyUI, torch_mib
from .giving_back import Returned, give_back
from .lease import Lease, acquire_on_gpu, lent_on_gpu
from .memory import TOLERANCE_MIB, Memory
from .outcome import Failure
from .peaks import Bounds, Peaks
from .workflow import fingerprint

FREE_S = 30.0
STOP_S = 10.0  # for ComfyUI to let go when the sidecar is told to stop
MORE_MIB = 256  # less than that is not worth another lease
AGAIN_S, AGAIN_MAX_S = 2.0, 60.0  # after a lease was asked for in vain, or less was granted; doubled each time


@dataclass(frozen=True)
class Terms:
    device: str
    bounds: Bounds
    linger_s: float
    wait_s: int


class Borrower:
    def __init__(self, name: str, ebb: Ebb, comfyui: ComfyUI, terms: Terms, peaks: Peaks, say: Callable[[str], None],
                 all_of_us: Sequence[Borrower] = ()):
        self._name, self._ebb, self._comfyui, self._terms, self._peaks, self._say = name, ebb, comfyui, terms, peaks, say
        self._all_of_us = all_of_us
        self._choice: cards.Choice | None = None
        self._noted: set[str] = set()
        self._memory: Memory | None = None
        self._leases: list[Lease] = []
        self._before = 0.0  # memory's figure before the first of them
        self._empty = 0.0  # and what it would have been without what ComfyUI held of earlier jobs
        self._holds: set[str] | None = None  # the workflows of which it may hold something; None: jobs ran there that nobody saw
        self._mixed = False  # another ComfyUI took memory of that card, and nobody shows which one took what
        self._coming = 0  # jobs that are on their way into the queue
        self._busy_at = time.monotonic()
        self._changing = asyncio.Lock()
        self._in_vain_at = float("-inf")  # and how long nobody asks again from then on, unless a job waits for it
        self._again_s = 0.0
        self._unanswered_s = 0.0  # what that ask took without an answer about room
        self._told = ""

    @property
    def lent_mib(self) -> int:
        return lent_on_gpu(self._leases)

    def forget_card(self) -> None:
        """Another ComfyUI may answer there next time."""
        self._holds = None
        self._comfyui.forget_classes()
        if not self._leases:
            self._choice = None

    async def workflow_of(self, graph: dict) -> str:
        return fingerprint(graph, await self._comfyui.classes())

    # --- for a job

    @contextlib.asynccontextmanager
    async def memory_for(self, workflow: str):
        """While a job is on its way into the queue: its memory is lent, as far as there is any, and is not given back."""
        self._coming += 1
        try:
            await self.ensure(self._peaks.need_mib(workflow, self._terms.bounds), self._terms.wait_s)
            self.began(workflow)  # a short job may have ended before anybody looks at the queue
            yield
        finally:
            self._coming -= 1
            self._busy_at = time.monotonic()

    async def ensure_soon(self, mib: int) -> None:
        """For jobs that do not wait: again and again, but not so soon after it was in vain."""
        if not self._changing.locked() and time.monotonic() >= self._in_vain_at + self._again_s:
            await self.ensure(mib, 0)

    async def ensure(self, mib: int, wait_s: int) -> None:
        """Never fails: a job without its memory is slow, and its owner is not to blame."""
        came = self._busy_at = time.monotonic()
        if mib <= self.lent_mib or self._is_too_soon():
            return
        async with self._changing:
            # One that was in vain meanwhile has waited for this one too.
            if mib <= self.lent_mib or self._in_vain_at > came or self._is_too_soon():
                return
            began, answered = time.monotonic(), False
            try:
                await self._enlarge(mib, wait_s)
                answered = True
                if mib <= self.lent_mib:
                    self._again_s = 0.0
                    return
            except (NoDaemon, NoComfyUI) as why:
                self._tell_once(f"{why}; jobs run in what is free")
            except EbbError as why:
                answered = why.code == "short_of"  # which may have been waited for
                if not (self._leases and why.code == "short_of"):  # that it is too little was said when that was lent
                    self._tell_once(f"Ebb lends nothing ({why.code}: {why.text}); jobs run in what is free")
            except Failure as why:
                self._tell_once(why.text())
            self._in_vain_at, self._again_s = time.monotonic(), min(AGAIN_MAX_S, max(AGAIN_S, self._again_s * 2))
            self._unanswered_s = 0.0 if answered else self._in_vain_at - began

    def _is_too_soon(self) -> bool:
        """An Ebb that is there and gives no answer costs one job in a while its time, not each."""
        return self._unanswered_s > 1.0 and time.monotonic() < self._in_vain_at + 5.0 * self._unanswered_s

    async def _enlarge(self, mib: int, wait_s: int) -> None:
        began = time.monotonic()
        if not self._leases:
            await self._begin()
        choice = await self._card()
        least = min(mib, self.lent_mib + MORE_MIB) if self._leases else 1
        self._leases += await acquire_on_gpu(self._ebb, f"comfyui {self._comfyui.url}", choice.devices, mib, self._say, min_mib=least, wait_s=wait_s, held=self._leases)
        self._told = ""
        short = f", {mib - self.lent_mib} too few" if self.lent_mib < mib else ""
        self._say(f"{self._name}: lent {self.lent_mib} MiB of card {choice.devices[0]}{short} in {(time.monotonic() - began) * 1000:.0f} ms")

    async def _begin(self) -> None:
        stats = await self._comfyui.stats()
        choice = await self._card(stats)
        self._memory = Memory(self._ebb, choice.devices, choice.uuid, choice.pid)
        self._before = await self._memory.begin()
        warm_mib = torch_mib(stats)
        self._empty = self._before + warm_mib
        if warm_mib <= TOLERANCE_MIB:
            self._holds = set()
        self._mixed = False

    async def _card(self, stats: dict | None = None) -> cards.Choice:
        """Found anew for each first lease: ComfyUI may have been started again."""
        if self._choice is None or stats is not None:
            self._choice = await cards.choose(self._comfyui.url, stats or await self._comfyui.stats(), await self._ebb.cards(), self._terms.device)
            for note in self._choice.notes:
                if note not in self._noted:
                    self._say(f"{self._name}: {note}")
            self._noted |= set(self._choice.notes)
        return self._choice

    def _is_mixed(self) -> bool:
        others = [other for other in self._all_of_us if other is not self and other._leases and other._choice and self._choice]
        if not self._memory.by_process and any(set(other._choice.devices) & set(self._choice.devices) for other in others):
            self._mixed = True
        return self._mixed

    def _tell_once(self, text: str) -> None:
        if text != self._told:
            self._say(f"{self._name}: {text}")
        self._told = text

    # --- what it takes

    async def taken_mib(self) -> float | None:
        """Of the card, by ComfyUI, all that it holds for its jobs; None: not known."""
        if not self._leases or self._is_mixed():
            return None
        figure = await self._memory.figure()
        return max(0.0, self._empty - figure) if self._memory.known and self._leases else None

    def began(self, workflow: str) -> None:
        """A job of that workflow runs."""
        if self._holds is not None:
            self._holds.add(workflow)

    def holds_only(self, workflow: str) -> bool:
        """Whether nothing of what was taken can be another workflow's, or another ComfyUI's."""
        return self._holds is not None and self._holds <= {workflow} and not self._mixed

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
            back = await self._let_go(FREE_S, wanted=lambda: self._coming > 0)
            if self._coming or back.busy or back.silent:
                return  # the lease is wanted again
            await self._end()
            if back.back:
                self._say(f"{self._name}: given back after {back.posts} request(s) to let go, {time.monotonic() - began:.2f} s")
            else:
                self._say(f"{self._name}: {self._kept(back)} after {FREE_S:.0f} s and {back.posts} requests to let go; the lease has ended, and Ebb takes what is free")

    async def _let_go(self, patience_s: float, wanted: Callable[[], bool] = lambda: False) -> Returned:
        if self._is_mixed():  # what is free then says nothing about this one: it is asked, twice since one can be lost
            back = await give_back(self._comfyui, self._memory.figure, float("-inf"), patience_s, 0.0, wanted=wanted, least_posts=2)
        else:
            back = await give_back(self._comfyui, self._memory.figure, self._before - TOLERANCE_MIB, patience_s, 0.0, wanted=wanted)
        if back.back and not back.silent:
            self._holds = set()
        return back

    def _kept(self, back: Returned) -> str:
        if self._memory.by_process:
            return f"ComfyUI keeps {back.missing_mib:.0f} MiB"
        return f"ComfyUI, or another program that came meanwhile, keeps {back.missing_mib:.0f} MiB"

    async def end(self) -> None:
        """The sidecar stops: an idle ComfyUI lets go first; a job that runs goes on in what it has, and Ebb takes what is free."""
        async with self._changing:
            if not self._leases:
                return
            back = await self._let_go(STOP_S)
            await self._end()
            if back.back:
                self._say(f"{self._name}: stopped; what was lent is given back")
            elif back.busy:
                self._say(f"{self._name}: stopped; the lease has ended, but a job runs in ComfyUI and keeps {back.missing_mib:.0f} MiB and more; Ebb takes what becomes free")
            else:
                self._say(f"{self._name}: stopped; the lease has ended, but {self._kept(back)} after {STOP_S:.0f} s; Ebb takes what becomes free")

    async def _end(self) -> None:
        leases, self._leases = self._leases, []
        for lease in leases:
            if not await lease.end(5.0):
                self._say(f"{self._name}: Ebb does not answer; lease {lease.id} ends with this process")
