# tools/ebb_sidecar/peaks.py: how much memory each workflow took, kept in a file, so that the next run is lent that.
#
# The first time a workflow is lent a generous guess, since what is lent and not taken costs Ebb only some speed for the time of one job, while
# too little makes ComfyUI stream weights. Afterwards it is lent the most of its last takes and a margin. One that filled its lease may have
# wanted more, which nobody can see: it gets a quarter more next time, and half as much again after running out of memory. `max_mib` is a fixed
# ceiling, without which two programs that size themselves by what is free would push each other.
from __future__ import annotations

import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

TAKES = 3
WORKFLOWS_MAX = 500  # the least used are forgotten
LEAST_MIB = 256
MARGIN_MIB = 256
MARGIN = 0.05


@dataclass(frozen=True)
class Bounds:
    first_guess_mib: int
    max_mib: int


def default_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "ebb" / "comfyui_peaks.json"


class Peaks:
    def __init__(self, file: Path | None):
        """None: nothing is kept. Raises ValueError where the file is there and is none of ours."""
        self._file = file
        self._known: dict[str, dict] = {}
        if file is not None:
            try:
                if not file.exists():
                    return
                found = json.loads(file.read_text())
                self._known = {str(key): {"takes": [float(take) for take in each["takes"]], "mib": int(each["mib"]), "used": float(each["used"])}
                               for key, each in found["workflows"].items()}
            except (ValueError, KeyError, TypeError, AttributeError, OSError) as why:
                raise ValueError(f"{file} is no file of learned peaks ({why}); remove it to learn anew, or name another with peaks_file") from why

    def knows(self, workflow: str) -> bool:
        return workflow in self._known

    def need_mib(self, workflow: str, bounds: Bounds) -> int:
        known = self._known.get(workflow)
        return min(bounds.max_mib, known["mib"] if known else bounds.first_guess_mib)

    def learn(self, workflow: str, taken_mib: float | None, lent_mib: int, bounds: Bounds, out_of_memory: bool = False) -> int:
        """What it is lent next time. None: what it took is not known, but only that it ran out of memory."""
        known = self._known.setdefault(workflow, {"takes": [], "mib": 0, "used": 0.0})
        if taken_mib is not None:
            known["takes"] = [*known["takes"], taken_mib][-TAKES:]
        most = max(known["takes"], default=0.0)
        next_mib = most + max(MARGIN_MIB, most * MARGIN)
        if out_of_memory:
            next_mib = max(next_mib, lent_mib * 1.5)
        elif taken_mib is not None and taken_mib >= lent_mib > 0:
            next_mib = max(next_mib, lent_mib * 1.25)
        known["mib"] = min(bounds.max_mib, max(LEAST_MIB, math.ceil(next_mib)))
        known["used"] = time.time()
        self._write()
        return known["mib"]

    def _write(self) -> None:
        if self._file is None:
            return
        for workflow in sorted(self._known, key=lambda each: self._known[each]["used"])[:-WORKFLOWS_MAX]:
            del self._known[workflow]
        self._file.parent.mkdir(parents=True, exist_ok=True)
        beside = self._file.with_name(self._file.name + ".new")
        beside.write_text(json.dumps({"version": 1, "workflows": self._known}, indent=1) + "\n")
        os.replace(beside, self._file)
