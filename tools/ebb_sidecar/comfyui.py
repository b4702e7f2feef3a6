# tools/ebb_sidecar/comfyui.py: questions to one ComfyUI over HTTP.
#
# No Origin is sent: ComfyUI refuses requests from other origins. Queue items may hold account keys, so they are never shown.
from __future__ import annotations

import asyncio
import errno
import time
from typing import Any

import aiohttp

PATIENCE_S = 15.0
CLASSES_AGAIN_S = 60.0


class NoComfyUI(Exception):
    """It does not answer. `is_away`: nobody is there, its connections are refused or end; otherwise it may only be slow, and hold what it has.
    `was_sent`: the question may have reached it all the same."""

    def __init__(self, text: str, is_away: bool = False, was_sent: bool = True):
        super().__init__(text)
        self.is_away, self.was_sent = is_away, was_sent


class Refused(Exception):
    """ComfyUI answered a prompt with 400."""

    def __init__(self, answer: dict):
        super().__init__("refused")
        self.answer = answer


class ComfyUI:
    def __init__(self, url: str, session: aiohttp.ClientSession):
        self.url = url.rstrip("/")
        self._session = session
        self._classes: dict = {}
        self._classes_at = float("-inf")  # when they were asked for in vain

    async def _call(self, method: str, path: str, body: dict | None = None) -> tuple[int, Any]:
        try:
            async with self._session.request(method, self.url + path, json=body, timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as answer:
                is_json = answer.content_type == "application/json"
                return answer.status, await (answer.json() if is_json else answer.text())
        except asyncio.TimeoutError as why:
            raise NoComfyUI(f"ComfyUI at {self.url} gives no answer within {PATIENCE_S:.0f} s") from why
        except (aiohttp.ClientError, OSError, ValueError) as why:
            is_unsent = isinstance(why, aiohttp.ClientConnectorError)
            is_away = why.os_error.errno == errno.ECONNREFUSED if is_unsent else isinstance(why, (aiohttp.ClientConnectionError, ConnectionError))
            raise NoComfyUI(f"ComfyUI does not answer at {self.url}: {str(why) or type(why).__name__}", is_away, not is_unsent) from why

    async def _get(self, path: str) -> dict:
        status, answer = await self._call("GET", path)
        if status != 200 or not isinstance(answer, dict):
            raise NoComfyUI(f"what answers at {self.url}{path} is no ComfyUI (HTTP {status})")
        return answer

    def _none(self, path: str, missing: str) -> NoComfyUI:
        return NoComfyUI(f"what answers at {self.url}{path} is no ComfyUI: its answer lacks {missing}")

    async def _post(self, path: str, body: dict) -> None:
        status, _ = await self._call("POST", path, body)
        if status != 200:
            raise NoComfyUI(f"ComfyUI at {self.url} answered {path} with HTTP {status}")

    async def stats(self) -> dict:
        return await self._get("/system_stats")

    async def classes(self) -> dict:
        """Of what type the inputs of all nodes are, asked for once; empty where it is not said."""
        if not self._classes and time.monotonic() >= self._classes_at + CLASSES_AGAIN_S:
            try:
                self._classes = await self._get("/object_info")
            except NoComfyUI:
                self._classes_at = time.monotonic()
        return self._classes

    def forget_classes(self) -> None:
        """Another ComfyUI, with other nodes, may answer next time."""
        self._classes, self._classes_at = {}, float("-inf")

    async def remaining(self) -> int:
        """Jobs that run or wait: the cheap question."""
        answer = await self._get("/prompt")
        try:
            return int(answer["exec_info"]["queue_remaining"])
        except (KeyError, TypeError, ValueError) as why:
            raise self._none("/prompt", "exec_info.queue_remaining") from why

    async def queue(self) -> tuple[list[list], list[list]]:
        """The items (number, id, graph, ...) that run, and those that wait, next one first."""
        answer = await self._get("/queue")
        try:
            running, pending = ([item for item in answer[name] if isinstance(item[2], dict)] for name in ("queue_running", "queue_pending"))
            return running, sorted(pending, key=lambda item: (item[0], item[1]))
        except (KeyError, TypeError, IndexError) as why:
            raise self._none("/queue", "queue_running and queue_pending, lists of items") from why

    async def history(self, prompt_id: str) -> dict | None:
        return (await self._get(f"/history/{prompt_id}")).get(prompt_id)

    async def submit(self, graph: dict, prompt_id: str, client_id: str, extra_data: dict | None = None) -> dict:
        """Queues a job under an id of ours, so that it is found again even if this answer is lost. Raises Refused, NoComfyUI."""
        body = {"prompt": graph, "prompt_id": prompt_id, "client_id": client_id} | ({"extra_data": extra_data} if extra_data else {})
        status, answer = await self._call("POST", "/prompt", body)
        if status == 200 and isinstance(answer, dict):
            return answer
        if isinstance(answer, dict):
            raise Refused(answer)
        raise Refused({"error": {"type": f"http_{status}", "message": f"HTTP {status}: {str(answer)[:200]}"}, "node_errors": {}})

    async def cancel(self, prompt_id: str) -> None:
        """Ends one job, waiting or running, and no other. A node that does not look for interrupts goes on to its end."""
        status, _ = await self._call("POST", f"/api/jobs/{prompt_id}/cancel", {})  # newer ones look and act under one lock
        if status == 200:
            return
        running, pending = await self.queue()
        if any(item[1] == prompt_id for item in pending):
            await self._post("/queue", {"delete": [prompt_id]})
            running, _ = await self.queue()  # it may have begun meanwhile
        if any(item[1] == prompt_id for item in running):
            await self._post("/interrupt", {"prompt_id": prompt_id})

    async def free(self) -> None:
        """Asks for the memory of models and of cached results. Only sets flags: a worker obeys them between two jobs, or later."""
        await self._post("/free", {"unload_models": True, "free_memory": True})


def torch_mib(stats: dict) -> float:
    """What torch holds there for models and results, of whatever jobs; the context is not in it."""
    held = (stats.get("devices") or [{}])[0].get("torch_vram_total")
    return held / (1 << 20) if isinstance(held, (int, float)) else 0.0


def _argv(stats: dict) -> list[str]:
    return [str(word) for word in (stats.get("system") or {}).get("argv") or []]


def keeps_models_on_gpu(stats: dict) -> str:
    """The option that makes unloading alone useless, or nothing."""
    return next((word for word in _argv(stats) if word in ("--highvram", "--gpu-only")), "")


def plans_with(stats: dict) -> str:
    """The options by which it leaves memory free, or takes what is free, with their values; or nothing."""
    argv, found = _argv(stats), []
    for i, word in enumerate(argv):
        if word.split("=")[0] in ("--reserve-vram", "--vram-headroom", "--enable-dynamic-vram"):
            has_value = "=" not in word and i + 1 < len(argv) and not argv[i + 1].startswith("--")
            found.append(f"{word} {argv[i + 1]}" if has_value else word)
    return " ".join(found)
