# tools/ebb_sidecar/report.py: what a handoff is asked for, and what came of it.
from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Options:
    workflow: str
    need_mib: int
    device: str = "auto"
    comfyui: str = "http://127.0.0.1:8188"
    at_least_mib: int | None = None
    wait_s: int = 0  # for room on the card
    timeout_s: float = 3600.0  # of the job, its time in the queue included
    cancel_s: float = 120.0  # for a job to end that was told to
    free_s: float = 60.0  # for ComfyUI to let go
    busy_s: float = 600.0  # for others' jobs to end
    allow_partial: bool = False


@dataclass
class Report:
    """What came of it; --json prints it."""

    exit: int = 0
    verdict: str = ""
    text: str = ""
    prompt_id: str = ""
    device: int = -1
    lease_mib: int = 0
    taken_mib: float = 0.0
    missing_mib: float = 0.0
    frees_posted: int = 0
    pictures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
