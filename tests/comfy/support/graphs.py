# tests/comfy/support/graphs.py: workflows that need no model: the same for the real ComfyUI and for its stand-in.
from __future__ import annotations

Graph = dict[str, dict]


def quick(color: int = 255) -> Graph:
    return {"1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": color}},
            "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "quick"}}}


def work(seconds: float = 0.0, mib: int = 0, deaf: bool = False, ends: str = "well", color: int = 1) -> Graph:
    graph = quick(color)
    graph["3"] = {"class_type": "EbbTestWork", "inputs": {"image": ["1", 0], "mib": mib, "seconds": seconds, "deaf": deaf, "ends": ends}}
    graph["2"]["inputs"] |= {"images": ["3", 0], "filename_prefix": "work"}
    return graph


def too_small() -> Graph:
    graph = quick()
    graph["1"]["inputs"]["width"] = 0
    return graph


def without_input() -> Graph:
    graph = quick()
    del graph["2"]["inputs"]["images"]
    return graph


def of_unknown_class() -> Graph:
    return {"1": {"class_type": "NoSuchNode", "inputs": {}}}


def without_outputs() -> Graph:
    graph = quick()
    del graph["2"]
    return graph


def in_a_circle() -> Graph:
    graph = work()
    graph["3"]["inputs"]["image"] = ["3", 0]
    return graph


def partly_broken() -> Graph:
    """The first output is fine, the second has no input: HTTP 200 with node_errors."""
    graph = quick(7)
    graph["4"] = {"class_type": "SaveImage", "inputs": {"filename_prefix": "other"}}
    return graph
