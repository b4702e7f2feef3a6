# tools/ebb_sidecar/outcome.py: how a handoff ends: an exit code, and what a person is told.
from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """Exit codes of tools/comfy_vram_handoff.py; docs/COMFYUI.md lists them."""

    OK = 0
    JOB_FAILED = 1  # ComfyUI ran the workflow, and a node failed
    BAD_INPUT = 2  # arguments, files, or a card that cannot be told
    SHORT = 3  # Ebb cannot lend that much
    REFUSED = 4  # ComfyUI did not take the workflow
    NO_COMFYUI = 5  # it does not answer, or lost the job
    TIMED_OUT = 6
    NO_EBB = 7  # it does not answer
    OUT_OF_MEMORY = 8  # the job ran out of VRAM
    NOT_BACK = 9  # the job is done, and ComfyUI keeps memory
    INTERRUPTED = 130  # by Ctrl-C or SIGTERM


class Failure(Exception):
    """What happened, what holds now, and the way out: each a sentence or two. `now` may be added where it is known."""

    def __init__(self, code: Exit, what: str, way_out: str = "", now: str = ""):
        super().__init__(what)
        self.code, self.what, self.way_out, self.now = code, what, way_out, now

    def text(self) -> str:
        lines = [self.what]
        if self.now:
            lines.append("  now:  " + self.now)
        if self.way_out:
            lines.append("  try:  " + self.way_out)
        return "\n".join(lines)
