# tools/ebb_sidecar/handoff.py: one workflow under a lease. Whatever happens, the memory goes back to Ebb and the caller is told how it ended.
#
#   lease -> is the grant real? -> queue the workflow -> wait -> ComfyUI lets go -> the driver shows it -> the lease ends
#
# The lease comes first: a job that is queued on an idle ComfyUI starts within milliseconds and sizes itself by what is free then.
from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable

import aiohttp

from . import cards, comfyui, ending, job, lease, workflow
from .bus import Ebb, EbbError, NoDaemon
from .comfyui import ComfyUI, NoComfyUI, Refused
from .giving_back import Returned, give_back
from .listener import Listener
from .memory import TOLERANCE_MIB, Memory
from .outcome import Exit, Failure
from .progress import Progress, explain_refusal
from .report import Options, Report
from .sampling import Most
from .stop_signals import stop_signals

CONTEXT_MIB = 640  # a CUDA context took 305 to 527; below 613 a start was seen to fail
SETTLE_S = 3.0  # for a ComfyUI that answers again to take what was sent to it meanwhile


class Interrupted(Exception):
    """Ctrl-C, SIGTERM, or a terminal that was closed."""


class Handoff:
    def __init__(self, options: Options, ebb: Ebb, say: Callable[[str], None], progress: Progress):
        self._options, self._ebb, self._say, self._progress = options, ebb, say, progress
        self.report = Report()
        self._stop = asyncio.Event()
        self._signals = 0
        self._leases: list[lease.Lease] = []
        self._choice = cards.Choice([], "")
        self._queued = False
        self._unsure = False  # whether it was
        self._taken = 0.0
        self._asked_to_stop = 0

    # --- the way there

    async def run(self) -> Report:
        loop = asyncio.get_running_loop()
        for each in stop_signals():
            loop.add_signal_handler(each, self._signalled)
        flow = workflow.read(self._options.workflow)
        async with aiohttp.ClientSession() as session:
            self._comfyui = ComfyUI(self._options.comfyui, session)
            try:
                await self._choose_card()
                await self._borrow()
                await self._under_lease(flow, session)
            except Failure as why:
                self._conclude(why)
            except Interrupted:
                self._conclude(Failure(Exit.INTERRUPTED, "interrupted", "", "nothing was queued"))
            await self._end_leases()
        return self.report

    async def _choose_card(self) -> None:
        try:
            stats = await self._comfyui.stats()
        except NoComfyUI as why:
            raise Failure(Exit.NO_COMFYUI, str(why), await self._how_to_start(), "nothing was lent and nothing was queued") from why
        try:
            there = await self._ebb.cards()
        except NoDaemon as why:
            raise Failure(Exit.NO_EBB, str(why), "start ebbd, or name its endpoint with --connect; without Ebb ComfyUI needs no handoff",
                          "nothing was lent and nothing was queued") from why
        except EbbError as why:
            raise Failure(Exit.NO_EBB, f"Ebb says {why.code}: {why.text}", "wait until `ebb status` says ready", "nothing was lent and nothing was queued") from why
        self._choice = await cards.choose(self._options.comfyui, stats, there, self._options.device)
        for note in self._choice.notes:
            self._note(note)
        if option := comfyui.keeps_models_on_gpu(stats):
            self._note(f"ComfyUI runs with {option}, which keeps models on the GPU when they are unloaded; its cached results are dropped too")
        if planning := comfyui.plans_with(stats):
            self._note(f"ComfyUI runs with {planning}: it sizes itself by what is free when a job begins, which the lease is by then; what it leaves free on purpose counts as needed")
        self._warm_mib = comfyui.torch_mib(stats)
        self.report.device = self._choice.devices[0]
        self._memory = Memory(self._ebb, self._choice.devices, self._choice.uuid, self._choice.pid)
        await self._memory.look()
        self._progress.phase(f"ComfyUI is on card {self.report.device}: {self._choice.how}")
        if self._choice.uuid and self._memory.reserve < CONTEXT_MIB:
            self._note(f"Ebb's reserve there is {self._memory.reserve} MiB: with less than {CONTEXT_MIB} ComfyUI could not be started again beside a full cache "
                       f"(`ebb vram {CONTEXT_MIB + 60} {self.report.device}`)")

    async def _how_to_start(self) -> str:
        start = "start ComfyUI, or name its address with --comfyui"
        try:
            there = [card for card in await self._ebb.cards() if card.get("uuid") and (self._options.device in ("auto", str(card["device"])))]
        except (NoDaemon, EbbError):
            return start
        tight = [card for card in there if card["vram_free_mib"] < CONTEXT_MIB]
        if tight:
            return start + f"; its start needs {CONTEXT_MIB} MiB for a CUDA context, and " + ", ".join(
                f"{cards.describe(card)} has {card['vram_free_mib']:.0f} free: `ebb vram {CONTEXT_MIB + 60} {card['device']}` first" for card in tight)
        return start

    async def _borrow(self) -> None:
        options = self._options
        before = time.monotonic()
        try:
            self._leases = await self._or_stop(lease.acquire_on_gpu(self._ebb, "comfyui " + options.comfyui, self._choice.devices, options.need_mib, self._say,
                                                                    min_mib=options.at_least_mib, wait_s=options.wait_s))
        except EbbError as why:
            if why.code != "short_of":
                raise Failure(Exit.NO_EBB, f"Ebb refuses the lease: {why.code}: {why.text}", "`ebb status` and `ebb lease list` show what it does", "nothing was lent and nothing was queued") from why
            raise await self._short(f"Ebb cannot lend {options.need_mib} MiB: {why.text}") from why
        except NoDaemon as why:
            raise Failure(Exit.NO_EBB, str(why), "look at ebbd's log", "nothing was queued; a lease that was given meanwhile ends with this process") from why
        for each in self._leases:
            if each.warning:
                self._note("Ebb warns: " + each.warning)
        self.report.lease_mib = lease.lent_on_gpu(self._leases)
        await self._check_grant()
        self.report.seconds["lease"] = time.monotonic() - before
        self._progress.phase(f"lent: {self._grant_mib} MiB, {self._granted_free:.0f} MiB are free on the card")

    async def _check_grant(self) -> None:
        """By figures read after the grant: Ebb's own, and the driver's beside it where there is nvidia-smi."""
        self._grant_mib = min(self._options.need_mib, self.report.lease_mib)
        self._granted_free = await self._memory.look()
        figures = [("Ebb", self._granted_free)] if self._memory.known else []
        if self._choice.uuid and (beside := await cards.gpus.free_mib_of(self._choice.uuid)) is not None:
            figures.append(("nvidia-smi", float(beside)))
        for who, free in figures:
            if free < self._grant_mib - 1:
                raise await self._short(f"{self._grant_mib} MiB were lent, but by {who} only {free:.0f} MiB are free on the card, {self._grant_mib - free:.0f} too few: another program has taken them")
        self._base = await self._memory.begin()

    async def _short(self, what: str) -> Failure:
        held = ""
        try:
            held = "".join(f"; lease {each['lease_id']} of {each['mib']} MiB is held for {each['owner']}"
                           for each in (await self._ebb.ask("lease", action="list"))["leases"] if each["device"] in self._choice.devices
                           and each["lease_id"] not in [own.id for own in self._leases])
        except (NoDaemon, EbbError):
            pass
        return Failure(Exit.SHORT, what + held, "a smaller --need, --at-least for what is still of use, --wait for room, or a smaller picture",
                       "nothing was queued, and Ebb has what it had")

    # --- the job

    async def _under_lease(self, flow: workflow.Workflow, session: aiohttp.ClientSession) -> None:
        listener = Listener(self._options.comfyui, session, self._progress.hear)
        most = Most(self._take)
        try:
            verdict = await self._run_job(flow, listener)
        finally:
            await most.end()
            await listener.close()
        if self._queued:
            await most.look()
            self._taken = most.mib or 0.0
            returned = await self._let_go(verdict)
            self._judge(verdict, returned)

    async def _run_job(self, flow: workflow.Workflow, listener: Listener) -> job.Verdict:
        self.report.prompt_id = str(uuid.uuid4())
        self._progress.follow(self.report.prompt_id)
        try:
            await self._or_stop(asyncio.wait_for(listener.connected.wait(), 5))
        except asyncio.TimeoutError:
            self._note("ComfyUI's websocket does not open; progress is not shown, and the end is seen by its history")
        before = time.monotonic()
        until = before + self._options.timeout_s
        await self._submit(flow, listener)
        waiting = job.wait_for_end(self._comfyui, self.report.prompt_id, listener, until, self._progress.place, SETTLE_S if self._unsure else 0.0)
        try:
            verdict = await self._or_stop(waiting)
        except Interrupted:
            verdict = await self._cancel(listener, Exit.INTERRUPTED, "interrupted")
        else:
            if verdict.end is job.End.STILL_RUNNING:
                verdict = await self._cancel(listener, Exit.TIMED_OUT, f"the job was not done within {self._options.timeout_s:.0f} s")
        if self._unsure and verdict.end is job.End.LOST:
            verdict.text = "ComfyUI did not answer when the workflow was sent, and does not know it now that it does: nothing was queued"
        self.report.seconds["job"] = time.monotonic() - before
        return verdict

    async def _submit(self, flow: workflow.Workflow, listener: Listener) -> None:
        id = self.report.prompt_id
        nothing = "nothing was queued, and the lease has ended"
        try:
            answer = await self._comfyui.submit(flow.graph, id, listener.client_id, flow.extra_data)
        except Refused as why:
            raise Failure(Exit.REFUSED, "ComfyUI does not take the workflow: " + explain_refusal(why.answer), "mend the workflow, and try it in ComfyUI's page", nothing) from why
        except NoComfyUI as why:
            if not why.was_sent:
                raise Failure(Exit.NO_COMFYUI, str(why), "look at ComfyUI's log; " + await self._how_to_start(), nothing) from why
            answer, self._unsure = {}, True  # the answer may have been lost, not the question: its id tells, as soon as ComfyUI answers
            self._note(f"{why}; whether the workflow was queued is asked until it does")
        self._queued = True
        dropped = answer.get("node_errors") or {}
        if dropped and not self._options.allow_partial:
            await self._cancel(listener, Exit.REFUSED, "")
            self.report.text = "ComfyUI would leave out a part of the workflow: " + explain_refusal({"node_errors": dropped})
            self._progress.phase(self.report.text)
        elif dropped:
            self._note("ComfyUI leaves out a part of the workflow: " + explain_refusal({"node_errors": dropped}))
        self._progress.phase(f"queued as {id}" if not self._unsure else f"perhaps queued as {id}")

    async def _cancel(self, listener: Listener, code: Exit, text: str) -> job.Verdict:
        """Ends our job and waits until it has really ended: a node may be deaf to interrupts. The lease stays meanwhile."""
        self.report.exit, self.report.text = code, text
        self._progress.phase((text + "; " if text else "") + "cancelling the job")
        until = time.monotonic() + self._options.cancel_s
        settle_s = SETTLE_S if self._unsure else 0.0
        while True:
            try:
                await self._comfyui.cancel(self.report.prompt_id)
                self._asked_to_stop += 1
            except NoComfyUI:
                pass  # the wait tells
            verdict = await job.wait_for_end(self._comfyui, self.report.prompt_id, listener, min(until, time.monotonic() + 2.0 + settle_s), settle_s=settle_s)
            if verdict.end is not job.End.STILL_RUNNING or time.monotonic() >= until:
                return verdict

    # --- the way back

    async def _let_go(self, verdict: job.Verdict) -> Returned:
        if verdict.end is job.End.STILL_RUNNING:
            return Returned(back=False, busy=True)
        before = time.monotonic()
        self._stop.clear()  # a signal has had its effect on the job; one from now on ends the wait
        goal = self._base - TOLERANCE_MIB
        returned = await give_back(self._comfyui, self._memory.figure, goal, self._options.free_s, self._options.busy_s,
                                   lambda jobs: self._progress.phase(f"ComfyUI has {jobs} more job(s); its memory stays with it until they are done"),
                                   self._stop.is_set)
        self.report.seconds["give back"] = time.monotonic() - before
        self.report.frees_posted, self.report.missing_mib = returned.posts, round(returned.missing_mib, 1)
        return returned

    def _judge(self, verdict: job.Verdict, returned: Returned) -> None:
        report, options = self.report, self._options
        report.verdict, report.pictures = verdict.end.value, verdict.pictures
        report.taken_mib = round(self._taken, 1)
        if report.taken_mib > self._grant_mib + TOLERANCE_MIB:
            self._note(f"ComfyUI took {report.taken_mib:.0f} MiB, more than the {self._grant_mib} lent: Ebb kept what it had mapped, and its reserve was used; "
                       f"next time --need {round(report.taken_mib + 1)}")
        if self._warm_mib > TOLERANCE_MIB:
            self._note(f"ComfyUI held {self._warm_mib:.0f} MiB of earlier jobs already when this one was lent memory: from cold it may take up to {report.taken_mib + self._warm_mib:.0f}")
        if report.exit:
            self._conclude(ending.of_cancelled(Exit(report.exit), report.text, verdict, self._asked_to_stop))
        elif why := ending.of_verdict(verdict, self._grant_mib):
            self._conclude(why)
        if returned.back or verdict.end is job.End.STILL_RUNNING:
            return
        if self._stop.is_set():
            report.exit = report.exit or Exit.INTERRUPTED
            self._note(f"not waited for ComfyUI to let go of {returned.missing_mib:.0f} MiB; Ebb takes what becomes free")
        elif returned.busy:
            self._note(f"others' jobs went on for {options.busy_s:.0f} s: ComfyUI was not asked to let go, so that none of them starts cold, and Ebb takes what becomes free")
        elif not self._memory.known:
            self._note("Ebb does not answer, so whether the memory is back is not known; Ebb takes what is free when it starts")
        else:
            who = f" (pid {self._choice.pid})" if self._choice.pid else ""
            if not self._memory.by_process:
                who += ", unless another program has taken them: which process holds what the driver does not show here"
            self._note(f"after {options.free_s:.0f} s and {returned.posts} requests to let go, {returned.missing_mib:.0f} MiB have not come back from ComfyUI{who}; "
                       "Ebb takes the others; a restart of ComfyUI returns these")
            report.exit = report.exit or Exit.NOT_BACK

    async def _end_leases(self) -> None:
        if not self._leases:
            return
        before = time.monotonic()
        for each in self._leases:
            if not await each.end():
                self._note(f"Ebb does not answer; lease {each.id} ends with this process")
        self.report.seconds["release"] = time.monotonic() - before
        self._progress.phase("the lease has ended")

    # --- helpers

    def _conclude(self, why: Failure) -> None:
        self.report.exit = why.code
        self.report.text = why.text()

    def _note(self, text: str) -> None:
        self.report.notes.append(text)
        self._say(text)

    def _signalled(self) -> None:
        self._signals += 1
        if self._signals > 1:  # no more waiting: the lease ends with the process
            os._exit(int(Exit.INTERRUPTED))
        self._say("interrupted: putting things back; once more to leave at once")
        self._stop.set()

    async def _or_stop(self, what):
        """The result, or Interrupted as soon as somebody wants an end."""
        doing, stop = asyncio.ensure_future(what), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({doing, stop}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise Interrupted
        finally:
            for each in (doing, stop):
                each.cancel()
            await asyncio.gather(doing, stop, return_exceptions=True)

    async def _take(self) -> float | None:
        figure = await self._memory.figure()
        return max(0.0, self._base - figure) if self._memory.known else None
