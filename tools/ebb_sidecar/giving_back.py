# tools/ebb_sidecar/giving_back.py: ComfyUI lets go of its memory, until the driver shows it.
#
# POST /free only sets flags, and the wake-up of the worker that obeys them can be lost just after a job; so it is posted again until the
# driver's figure has come back. Compared with what was free before, never with the whole card: ComfyUI's CUDA context stays, and custom
# nodes hold memory of their own. While anybody's job runs or waits it is not posted: that job would start cold.
from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .comfyui import ComfyUI, NoComfyUI

AGAIN_S = 1.5
LOOK_S = 0.25


@dataclass
class Returned:
    back: bool
    missing_mib: float = 0.0
    posts: int = 0
    busy: bool = False  # others' jobs kept ComfyUI from being asked
    silent: bool = False  # ComfyUI gives no answer, and is there
    gone: bool = False  # there is no ComfyUI: its memory is free by that
    waited_s: float = 0.0


async def give_back(comfyui: ComfyUI, free_mib: Callable[[], Awaitable[float]], goal_mib: float, patience_s: float, busy_patience_s: float,
                    on_busy: Callable[[int], None] = lambda jobs: None, wanted: Callable[[], bool] = lambda: False,
                    least_posts: int = 1) -> Returned:
    """Until free_mib() reaches the goal. `wanted`: somebody needs the memory again, stop."""
    began = time.monotonic()
    idle_s, busy_s, last, post_at, posts, jobs = 0.0, 0.0, began, began, 0, 0
    told_jobs, last_free = 0, 0.0

    def returned(**what) -> Returned:
        return Returned(posts=posts, waited_s=time.monotonic() - began, missing_mib=max(0.0, goal_mib - last_free), **what)

    while True:
        gone = silent = False
        try:
            jobs = await comfyui.remaining()
            if jobs == 0 and time.monotonic() >= post_at:
                await comfyui.free()
                posts += 1
                post_at = time.monotonic() + AGAIN_S
        except NoComfyUI as why:
            gone, silent = why.is_away, not why.is_away
            jobs = 0 if gone else jobs
        if jobs > 0 and jobs != told_jobs:
            on_busy(jobs)
            told_jobs = jobs
        last_free = await free_mib()
        if jobs == 0 and not silent and last_free >= goal_mib and (posts >= least_posts or gone):
            return returned(back=True, gone=gone)
        now = time.monotonic()
        if jobs > 0 and not silent:
            busy_s += now - last
        else:
            idle_s += now - last
        last = now
        if wanted():
            return returned(back=False)
        if jobs > 0 and busy_s >= busy_patience_s:
            return returned(back=False, busy=True)
        if idle_s >= patience_s:
            return returned(back=last_free >= goal_mib and jobs == 0, gone=gone, silent=silent)
        await asyncio.sleep(LOOK_S)
