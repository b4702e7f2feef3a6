# tools/ebb_sidecar/progress.py: what a person sees of a job while it runs, on stderr; and ComfyUI's refusals in words.
from __future__ import annotations

import contextlib
import sys
import time

EVERY_S = 1.0  # lines of progress where there is no terminal


def _print(text: str, end: str = "\n") -> None:
    with contextlib.suppress(OSError):  # a terminal that was closed is no reason to leave memory lent
        print(text, end=end, file=sys.stderr, flush=True)


class Progress:
    def __init__(self, quiet: bool = False):
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._prompt_id = ""
        self._open_line = False
        self._told_at = 0.0
        self._place = -1
        self._node = ""

    def follow(self, prompt_id: str) -> None:
        self._prompt_id = prompt_id

    def phase(self, text: str) -> None:
        if not self._quiet:
            self._close()
            _print("- " + text)

    def place(self, place: int) -> None:
        if place != self._place and place > 0:
            self.phase(f"{place - 1} job(s) wait before it" if place > 1 else "next in ComfyUI's queue")
        self._place = place

    def hear(self, type: str, data: dict) -> None:
        """A message of ComfyUI's websocket. Not all of them name the job; those of another are left out."""
        if data.get("prompt_id", self._prompt_id) != self._prompt_id:
            return
        if type == "execution_cached" and data.get("nodes"):
            self.phase(f"{len(data['nodes'])} node(s) need not run again")
        elif type == "executing" and data.get("node") is not None:
            self._node = str(data.get("display_node") or data["node"])
            self._step(f"node {self._node}")
        elif type == "progress" and data.get("max"):
            self._step(f"node {data.get('node') or self._node}: {data['value']}/{data['max']}")
        elif type == "execution_error" and data.get("exception_type") == "ExecutionBlocked":
            self.phase(f"a branch was blocked at node {data.get('node_id')}: {str(data.get('exception_message', '')).strip()}")

    def _step(self, text: str) -> None:
        if self._quiet:
            return
        if self._terminal:
            _print(f"\r\033[K  {text}", end="")
            self._open_line = True
        elif time.monotonic() - self._told_at >= EVERY_S:
            self._told_at = time.monotonic()
            _print(f"  {text}")

    def _close(self) -> None:
        if self._open_line:
            _print("")
            self._open_line = False


def explain_refusal(answer: dict) -> str:
    """`error.details` is empty when the fault lies above the output node; node_errors have it then."""
    error = answer.get("error") or {}
    if isinstance(error, str):
        error = {"message": error}
    parts = []
    for id, node in (answer.get("node_errors") or {}).items():
        for each in node.get("errors", []):
            details = f" ({each['details']})" if each.get("details") else ""
            parts.append(f"node {id} ({node.get('class_type')}): {each.get('message')}{details}")
    if not parts:
        parts = [" ".join(str(error.get(key)) for key in ("message", "details") if error.get(key)) or "it says no more"]
    return "; ".join(dict.fromkeys(parts))
