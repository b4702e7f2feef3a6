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
from .sampling import Most

IDLE_LOOK_S = 1.0
BUSY_LOOK_S = 0.5
AWAY_LOOK_S = 2.0


class Watcher:
    def __init__(self, name: str, comfyui: ComfyUI, borrower: Borrower, bounds: Bounds, peaks: Peaks, session: aiohttp.ClientSession, say: Callable[[str], None]):
        self._name, self._comfyui, self._borrower, self._bounds, self._peaks, self._say = name, comfyui, borrower, bounds, peaks, say
        self._listener = Listener(comfyui.url, session)
        self._job = ""  # that runs
        self._workflow = ""
        self._most: Most | None = None  # that it takes
        self._away = False
        self._told = ""

    async def run(self) -> None:
        try:
            while True:
                await self._listener.wait(await self._look_or_tell())
        finally:
            await self._stop_looking()
            await self._listener.close()

    async def _look_or_tell(self) -> float:
        """Whatever an odd answer does to a look, the port and the other servers go on, and so does the next look."""
        try:
            return await self._look()
        except Exception as why:
            self._tell_once(f"a look at its queue failed ({type(why).__name__}: {why}); jobs go on, and it is looked at again")
            await asyncio.sleep(0.2)
            return AWAY_LOOK_S

    def _tell_once(self, text: str) -> None:
        if text != self._told:
            self._say(f"{self._name}: {text}")
        self._told = text

    async def _look(self) -> float:
        """One look; how long until the next one, unless there is news."""
        try:
            busy = await self._comfyui.remaining() > 0
            running, pending = await self._comfyui.queue() if busy else ([], [])
            await self._comfyui.classes()
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
                await self._stop_looking()
                await self._borrower.give_back_if_idle(self._is_away)
            await asyncio.sleep(0.2)  # the websocket's news of that would make it a busy loop
            return AWAY_LOOK_S
        if busy:
            workflows = [await self._borrower.workflow_of(item[2]) for item in running + pending]
            await self._borrower.ensure_soon(max((self._peaks.need_mib(each, self._bounds) for each in workflows), default=0))
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
            ended, self._job = self._job, ""
            await self._learn(ended, await self._stop_looking())
        if job != self._job:
            self._job, self._workflow = job, await self._borrower.workflow_of(running[0][2])
            self._borrower.began(self._workflow)
            self._most = Most(self._borrower.taken_mib)

    async def _stop_looking(self) -> float | None:
        most, self._most = self._most, None
        if most is None:
            return None
        await most.end()
        return most.mib

    async def _learn(self, job: str, taken: float | None) -> None:
        try:
            entry = await self._comfyui.history(job)
        except NoComfyUI:
            entry = None
        verdict = verdict_of(entry).end if entry else End.LOST
        lent = self._borrower.lent_mib
        if not self._borrower.holds_only(self._workflow):
            taken = None  # some of it may be another one's
        if lent == 0 or not (verdict is End.OUT_OF_MEMORY or (verdict is End.SUCCESS and taken is not None)):
            return  # one that was broken off took less than it needs
        known = self._peaks.knows(self._workflow)
        before = self._peaks.need_mib(self._workflow, self._bounds)
        try:
            after = self._peaks.learn(self._workflow, taken, lent, self._bounds, verdict is End.OUT_OF_MEMORY)
        except OSError as why:  # known until this process ends
            self._tell_once(f"what workflows take cannot be kept: {why.filename}: {why.strerror}; name another file with peaks_file (--peaks-file)")
            after = self._peaks.need_mib(self._workflow, self._bounds)
        if not known or abs(after - before) > before * 0.02:
            self._say(f"{self._name}: workflow {self._workflow[:8]} " + ("ran out of memory" if verdict is End.OUT_OF_MEMORY else f"took {taken:.0f} MiB")
                      + f" of {lent} lent; next time {after}")
