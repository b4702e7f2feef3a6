# tools/ebb_sidecar/workflow.py: what is to be run: a graph in ComfyUI's API format, and how it is known again.
from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from .outcome import Exit, Failure

# Inputs that change from run to run and hardly change what memory is taken.
_PASSING = re.compile(r"(^|_)(seed|text|prompt|steps|cfg|denoise)(_[gl])?$|^(positive|negative|filename|control_after)")
# Texts that choose something: an option, or a file. Everything else is prose.
_CHOICE = re.compile(r"\S{1,100}|.*\.(safetensors|sft|ckpt|pth?|gguf|bin|onnx)")


@dataclass(frozen=True)
class Workflow:
    graph: dict
    extra_data: dict | None = None


def _fail(path: str, what: str, way_out: str) -> Failure:
    return Failure(Exit.BAD_INPUT, f"{path} {what}", way_out, "nothing was lent and nothing was queued")


def read(path: str) -> Workflow:
    """Raises Failure, which says what the file is instead."""
    export = "in ComfyUI: Workflow > Export (API)"
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except OSError as why:
        raise _fail(path, f"cannot be read: {why.strerror}", "the path of a workflow in API format; " + export) from why
    except ValueError as why:
        raise _fail(path, f"is not JSON: {why}", export) from why
    if isinstance(found, dict) and isinstance(found.get("nodes"), list):
        raise _fail(path, "is a workflow as the web page saves it, which only the page can run", "save it in API format; " + export)
    extra_data = None
    if isinstance(found, dict) and isinstance(found.get("prompt"), dict):
        extra_data = found.get("extra_data")
        found = found["prompt"]
    if not isinstance(found, dict) or not found or not all(isinstance(node, dict) and "class_type" in node for node in found.values()):
        raise _fail(path, "is no workflow in API format: {id: {class_type, inputs}, ...}", export)
    return Workflow(found, extra_data if isinstance(extra_data, dict) else None)


def _lasting(inputs: dict) -> dict:
    return {name: value for name, value in inputs.items()
            if not _PASSING.search(name.lower()) and not (isinstance(value, str) and not _CHOICE.fullmatch(value))}


def fingerprint(graph: dict) -> str:
    """The same for two runs of a workflow whose seeds, texts and numbers of steps differ; another one for another model or size."""
    lasting = {}
    for id, node in graph.items():
        if isinstance(node, dict):
            inputs = node.get("inputs")
            lasting[str(id)] = [node.get("class_type"), _lasting(inputs) if isinstance(inputs, dict) else inputs]
    return hashlib.sha256(json.dumps(lasting, sort_keys=True, default=str).encode()).hexdigest()[:24]
