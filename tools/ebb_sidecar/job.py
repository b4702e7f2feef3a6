# tools/ebb_sidecar/job.py: one job of ComfyUI's, from the queue to its verdict.
#
# The verdict is what /history says. A job that was cleared from the queue, or lost in a restart, never comes there and nobody is told:
# it is lost when neither queue nor history has it, twice, history read last, since a job moves from the one to the other in between.
from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .comfyui import ComfyUI, NoComfyUI
from .listener import Listener

LOOK_S = 1.0
GONE_S = 10.0  # without anybody at its port, before ComfyUI counts as gone; one that only takes its time is waited for
OUT_OF_MEMORY = "OutOfMemoryError"  # in the name of the exception, whatever module it is of


class End(enum.Enum):
    SUCCESS = "success"
    ERROR = "error"
    OUT_OF_MEMORY = "out of memory"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    GONE = "gone"  # ComfyUI itself
    STILL_RUNNING = "still running"  # when the time was over


@dataclass
class Verdict:
    end: End
    text: str = ""
    pictures: list[str] = field(default_factory=list)


def pictures_of(entry: dict) -> list[str]:
    """Names of the files that the job saved, as folders below ComfyUI's output; those of previews begin with temp/."""
    names = []
    for outputs in (entry.get("outputs") or {}).values():
        for values in outputs.values() if isinstance(outputs, dict) else ():
            for each in values if isinstance(values, list) else ():
                if isinstance(each, dict) and "filename" in each:
                    kind = "" if each.get("type", "output") == "output" else each["type"]
                    names.append("/".join(part for part in (kind, each.get("subfolder", ""), each["filename"]) if part))
    return names


def verdict_of(entry: dict) -> Verdict:
    """What an entry of the history says. An interrupt is status "error" too: the last message tells."""
    status = entry.get("status") or {}
    messages = status.get("messages") or [["", {}]]
    event, data = messages[-1][0], messages[-1][1]
    if event == "execution_interrupted":
        return Verdict(End.INTERRUPTED, f"interrupted at node {data.get('node_id')} ({data.get('node_type')})")
    if event == "execution_error":
        kind = str(data.get("exception_type", ""))
        text = f"node {data.get('node_id')} ({data.get('node_type')}): {kind}: {str(data.get('exception_message', '')).strip()}"
        is_memory = OUT_OF_MEMORY in kind or "out of memory" in text.lower()
        return Verdict(End.OUT_OF_MEMORY if is_memory else End.ERROR, text)
    if status.get("status_str") == "success":
        return Verdict(End.SUCCESS, pictures=pictures_of(entry))
    return Verdict(End.ERROR, f"ComfyUI's history says {status.get('status_str')!r}")


async def wait_for_end(comfyui: ComfyUI, prompt_id: str, listener: Listener, until: float, on_place: Callable[[int], None] = lambda place: None,
                       settle_s: float = 0.0) -> Verdict:
    """Until the verdict, or STILL_RUNNING at `until` (monotonic). `on_place`: how many are before it in the queue, 0: it runs.
    `settle_s`: it may come into the queue so late after ComfyUI answers again."""
    missed, missed_since, away_since, silence = 0, 0.0, None, ""
    while True:
        try:
            running, pending = await comfyui.queue()
            place = next((i for i, item in enumerate(pending, 1) if item[1] == prompt_id), 0)
            there = place > 0 or any(item[1] == prompt_id for item in running)
            entry = await comfyui.history(prompt_id)
            away_since, silence = None, ""
            if entry is not None:
                return verdict_of(entry)
            missed = 0 if there else missed + 1
            if missed == 1:
                missed_since = time.monotonic()
            if there:
                settle_s = 0.0
            if missed >= 2 and time.monotonic() - missed_since >= settle_s:
                return Verdict(End.LOST, "it is neither in ComfyUI's queue nor in its history: the queue was cleared, or ComfyUI was started again")
            if there:
                on_place(place)
        except NoComfyUI as why:
            silence, missed = str(why), 0
            away_since = (away_since or time.monotonic()) if why.is_away else None
            if away_since and time.monotonic() - away_since >= GONE_S:
                return Verdict(End.GONE, silence)
        if time.monotonic() >= until:
            return Verdict(End.STILL_RUNNING, silence)
        await listener.wait(0.2 if missed or silence else min(LOOK_S, max(0.05, until - time.monotonic())))
        if silence or missed > 1:
            await asyncio.sleep(0.3)
