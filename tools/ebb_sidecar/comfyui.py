# tools/ebb_sidecar/comfyui.py: questions to one ComfyUI over HTTP.
#
# No Origin is sent: ComfyUI refuses requests from other origins. Queue items may hold account keys, so they are never shown.
from __future__ import annotations

import asyncio
import errno
from typing import Any

import aiohttp

PATIENCE_S = 15.0


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

    async def _post(self, path: str, body: dict) -> None:
        status, _ = await self._call("POST", path, body)
        if status != 200:
            raise NoComfyUI(f"ComfyUI at {self.url} answered {path} with HTTP {status}")

    async def stats(self) -> dict:
        return await self._get("/system_stats")

    async def remaining(self) -> int:
        """Jobs that run or wait: the cheap question."""
        return (await self._get("/prompt"))["exec_info"]["queue_remaining"]

    async def queue(self) -> tuple[list[list], list[list]]:
        """The items (number, id, graph, ...) that run, and those that wait, next one first."""
        answer = await self._get("/queue")
        return answer["queue_running"], sorted(answer["queue_pending"], key=lambda item: (item[0], item[1]))

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


def keeps_models_on_gpu(stats: dict) -> str:
    """The option that makes unloading alone useless, or nothing."""
    argv = [str(word) for word in (stats.get("system") or {}).get("argv", [])]
    return next((word for word in argv if word in ("--highvram", "--gpu-only")), "")
