# tools/ebb_sidecar/watcher.py: what one ComfyUI has to do, seen in its queue; who queues there is not asked to do anything else.
#
# Seen so is always late: a job that is queued on an idle ComfyUI starts within milliseconds. That is early enough for a cold model, which
# is read from disk for seconds, and too late for a warm one; the gate is never late.
from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp

from .borrower import Borrower
from .comfyui import ComfyUI, NoComfyUI
from .job import End, verdict_of
from .listener import Listener
from .peaks import Bounds, Peaks
from .workflow import fingerprint

IDLE_LOOK_S = 1.0
BUSY_LOOK_S = 0.5
AWAY_LOOK_S = 2.0
AGAIN_S = 2.0  # after a lease was asked for in vain


class Watcher:
    def __init__(self, name: str, comfyui: ComfyUI, borrower: Borrower, bounds: Bounds, peaks: Peaks, session: aiohttp.ClientSession, say: Callable[[str], None]):
        self._name, self._comfyui, self._borrower, self._bounds, self._peaks, self._say = name, comfyui, borrower, bounds, peaks, say
        self._listener = Listener(comfyui.url, session)
        self._job = ""  # that runs
        self._workflow = ""
        self._most: float | None = None  # it was seen to take
        self._away = False

    async def run(self) -> None:
        try:
            while True:
                await self._listener.wait(await self._look())
        finally:
            await self._listener.close()

    async def _look(self) -> float:
        """One look; how long until the next one, unless there is news."""
        try:
            busy = await self._comfyui.remaining() > 0
            running, pending = await self._comfyui.queue() if busy else ([], [])
            if self._away:
                self._say(f"{self._name}: ComfyUI answers again")
            self._away = False
        except NoComfyUI as why:
            if not self._away:
                self._say(f"{self._name}: {why}; waiting for it")
                self._borrower.forget_card()
            self._away = True
            if why.is_away:  # otherwise it holds what it has, and its job may go on
                self._job = ""
                await self._borrower.give_back_if_idle(self._is_away)
            await asyncio.sleep(0.2)  # the websocket's news of that would make it a busy loop
            return AWAY_LOOK_S
        if busy:
            await self._borrower.ensure(max((self._peaks.need_mib(fingerprint(item[2]), self._bounds) for item in running + pending), default=0), AGAIN_S)
        await self._follow(running)
        if busy:
            self._borrower.busy()
            return BUSY_LOOK_S
        await self._borrower.give_back_if_idle(self._is_idle)
        return IDLE_LOOK_S

    async def _is_idle(self) -> bool:
        try:
            return await self._comfyui.remaining() == 0
        except NoComfyUI as why:
            return why.is_away

    async def _is_away(self) -> bool:
        return True

    async def _follow(self, running: list[list]) -> None:
        job = running[0][1] if running else ""
        if self._job and job != self._job:
            await self._learn()
        if job != self._job:
            self._job, self._workflow, self._most = job, fingerprint(running[0][2]) if running else "", None
        if job:
            taken = await self._borrower.taken_mib()
            if taken is not None:
                self._most = max(self._most or 0.0, taken)

    async def _learn(self) -> None:
        try:
            entry = await self._comfyui.history(self._job)
        except NoComfyUI:
            entry = None
        verdict = verdict_of(entry).end if entry else End.LOST
        taken, lent = self._most, self._borrower.lent_mib
        if verdict not in (End.SUCCESS, End.OUT_OF_MEMORY) or taken is None or lent == 0:
            return  # one that was broken off took less than it needs
        known = self._peaks.knows(self._workflow)
        before = self._peaks.need_mib(self._workflow, self._bounds)
        after = self._peaks.learn(self._workflow, taken, lent, self._bounds, verdict is End.OUT_OF_MEMORY)
        if not known or abs(after - before) > before * 0.02:
            self._say(f"{self._name}: workflow {self._workflow[:8]} " + ("ran out of memory" if verdict is End.OUT_OF_MEMORY else f"took {taken:.0f} MiB")
                      + f" of {lent} lent; next time {after}")
