# tools/ebb_sidecar/workflow.py: what is to be run: a graph in ComfyUI's API format, and how it is known again.
from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from .outcome import Exit, Failure

# Where ComfyUI does not say of what type an input is (/object_info), names and values tell: inputs that change from run to run and hardly
# change what memory is taken.
_PASSING = re.compile(r"(^|_)(seed|text|prompt|steps|cfg|denoise)(_[gl])?$|^(positive|negative|filename|control_after)")
# Texts that, then, choose something: an option, or a file. Everything else is prose.
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


class _Lasting:
    """Which inputs of a graph last from run to run. `classes`: what /object_info says, as far as it is known."""

    def __init__(self, graph: dict, classes: dict):
        self._graph, self._classes = graph, classes
        self._readers: dict[str, list[tuple[str, str]]] = {}  # of a node's outputs: node and input
        for id, node in graph.items():
            for name, value in self._inputs(id).items():
                if isinstance(value, list) and value:
                    self._readers.setdefault(str(value[0]), []).append((id, name))

    def _inputs(self, id: str) -> dict:
        node = self._graph[id]
        inputs = node.get("inputs") if isinstance(node, dict) else None
        return inputs if isinstance(inputs, dict) else {}

    def _class(self, id: str) -> dict:
        node = self._graph[id]
        known = self._classes.get(str(node.get("class_type"))) if isinstance(node, dict) else None
        return known if isinstance(known, dict) else {}

    def _is_value(self, id: str) -> bool:
        """Whether the node only hands a number, text or choice on, so that what it is for is said by who reads it."""
        outputs = self._class(id).get("output")
        return bool(outputs) and all(isinstance(each, list) or each in ("INT", "FLOAT", "STRING", "BOOLEAN", "COMBO") for each in outputs)

    def _type(self, id: str, name: str) -> tuple[str, dict]:
        inputs = self._class(id).get("input")
        for group in ("required", "optional"):
            spec = ((inputs or {}).get(group) or {}).get(name)
            if isinstance(spec, (list, tuple)) and spec:
                options = spec[1] if len(spec) > 1 and isinstance(spec[1], dict) else {}
                return "COMBO" if isinstance(spec[0], list) else str(spec[0]), options
        return "", {}

    def _takes_lasting(self, id: str, name: str, value=None) -> bool:
        """Whether the input is for something that lasts; of a type that nobody told, by its name and value."""
        type, options = self._type(id, name)
        if type == "COMBO":
            return not any(option.endswith("_upload") and on for option, on in options.items())
        if type == "STRING":
            return False
        if _PASSING.search(name.lower()) or options.get("control_after_generate"):
            return False
        return type in ("INT", "FLOAT", "BOOLEAN") or not isinstance(value, str) or bool(_CHOICE.fullmatch(value))

    def _reaches_lasting(self, id: str, seen: set[str]) -> bool:
        if id in seen:
            return False
        seen.add(id)
        return any(self._reaches_lasting(reader, seen) if self._is_value(reader) else self._takes_lasting(reader, name) for reader, name in self._readers.get(id, ()))

    def of(self, id: str) -> dict:
        lasts = self._reaches_lasting(id, set()) if self._is_value(id) else None
        return {name: value for name, value in self._inputs(id).items()
                if isinstance(value, list) or (self._takes_lasting(id, name, value) if lasts is None else lasts)}


def fingerprint(graph: dict, classes: dict | None = None) -> str:
    """The same for two runs of a workflow whose seeds, texts, uploads and numbers of steps differ; another one for another model or size."""
    lasting, inputs = {}, _Lasting(graph, classes or {})
    for id, node in graph.items():
        if isinstance(node, dict):
            lasting[str(id)] = [node.get("class_type"), inputs.of(id)]
    return hashlib.sha256(json.dumps(lasting, sort_keys=True, default=str).encode()).hexdigest()[:24]
