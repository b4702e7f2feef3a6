# tools/ebb_sidecar/ending.py: how a job ended, as a failure that is told: what happened, what holds now, the way out.
from __future__ import annotations

from .job import End, Verdict
from .outcome import Exit, Failure

NOW = "the lease has ended"


def of_verdict(verdict: Verdict, grant_mib: int) -> Failure | None:
    """None: all is well."""
    again = "run it again"
    said = {
        End.ERROR: (Exit.JOB_FAILED, "the job failed: " + verdict.text, "mend the workflow; ComfyUI's log has the traceback"),
        End.OUT_OF_MEMORY: (Exit.OUT_OF_MEMORY, f"the job ran out of memory with {grant_mib} MiB lent: {verdict.text}",
                            f"--need {round(grant_mib * 1.25)} or more, or a smaller picture or batch"),
        End.INTERRUPTED: (Exit.JOB_FAILED, "somebody interrupted the job in ComfyUI: " + verdict.text, again),
        End.LOST: (Exit.NO_COMFYUI, "the job was lost: " + verdict.text, again),
        End.GONE: (Exit.NO_COMFYUI, "ComfyUI ended in the middle of the job: " + verdict.text, "look at ComfyUI's log, start it and run the workflow again"),
    }.get(verdict.end)
    return Failure(*said, now=NOW) if said else None


def of_cancelled(code: Exit, text: str, verdict: Verdict, asked: int) -> Failure:
    """A job that we ended, for a reason of ours; `asked` so many times."""
    advice = {Exit.TIMED_OUT: "a longer --timeout", Exit.REFUSED: "mend the workflow, or --allow-partial"}.get(code, "")
    became = {
        End.STILL_RUNNING: f"whether the job still runs is not known: {verdict.text}" if verdict.text else "the job still runs: nothing in it looks for interrupts, or ComfyUI's worker is dead, and only a restart of ComfyUI ends it",
        End.SUCCESS: "the job was done before it could be cancelled" if asked < 2 else
                     f"the job went on to its end although it was told to stop {asked} times: a node in it keeps interrupts to itself",
        End.GONE: "ComfyUI has ended",
    }.get(verdict.end, "the job was cancelled")
    return Failure(code, text, advice, f"{NOW}; {became}")
