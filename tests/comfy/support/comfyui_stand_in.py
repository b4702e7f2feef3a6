# tests/comfy/support/comfyui_stand_in.py: a ComfyUI that goes wrong when told to: server, queue, one worker, flags of /free, websocket.
#
# What it says has the shape of what the real one was recorded to say (tests/data/comfyui, stand_in_test.py). Its memory is a simulated GPU's.
from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path

from aiohttp import web

from .simulated_gpu import SimulatedGpu

DATA = Path(__file__).resolve().parents[2] / "data" / "comfyui"
STEP_S = 0.1


def recorded(name: str) -> dict:
    return json.loads((DATA / f"{name}.json").read_text())


class _Interrupted(Exception):
    pass


class _NodeFailed(Exception):
    def __init__(self, type: str, message: str):
        super().__init__(message)
        self.type, self.message = type, message


class ComfyUIStandIn:
    def __init__(self, gpu: SimulatedGpu | None = None, argv: list[str] | None = None, device_name: str | None = None):
        self.gpu, self.argv, self.port = gpu, ["main.py", *(argv or [])], 0
        self.device_name = device_name or (f"cuda:0 {gpu.name} : cudaMallocAsync" if gpu else "cpu")
        self.who = f"comfyui {id(self)}"
        # What goes wrong.
        self.wakeups_lost = 0  # of the next so many POST /free the worker hears nothing
        self.spike_mib = 0.0  # taken for 0.3 s before everything else
        self.kept_mib = 0.0  # never comes back, whatever is asked
        self.swallows = False  # its node looks for interrupts, and keeps them to itself
        self.silent = False  # the websocket says nothing after the first status
        self.worker_dead = False  # the job that runs never ends
        self.stalled = False  # takes connections and answers nothing until it goes on, as one that is stopped or swaps
        self.slow_to_queue_s = 0.0  # a prompt comes into the queue so late
        self.new_api = False  # has /api/jobs/{id}/cancel
        self.classes: dict[str, dict] = {}  # what it says of its nodes: nothing
        # What was seen.
        self.frees: list[dict] = []
        self.frees_while_busy = 0
        self.events: list[tuple[str, str]] = []
        self.last_headers: dict[str, str] = {}  # of GET /prompt
        self.on_begin = lambda: None  # a job
        self._forget()

    def _forget(self) -> None:
        self._pending: list[list] = []
        self._running: list[list] = []
        self._history: dict[str, dict] = {}
        self._sockets: dict[str, web.WebSocketResponse] = {}
        self._flags: dict[str, bool] = {}
        self._cached: dict[str, str] = {}  # node: what it was made from
        self._files: dict[str, dict] = {}
        self._interrupted = False
        self._number = self._saved = 0

    # --- its life

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._forget()
        if self.gpu:
            self.gpu.take(self.who, 400)  # a context
        app = web.Application(client_max_size=1 << 26, middlewares=[self._stall])
        for prefix in ("", "/api"):
            app.router.add_get(prefix + "/ws", self._socket)
            app.router.add_get(prefix + "/prompt", self._get_info)
            app.router.add_post(prefix + "/prompt", self._prompt)
            app.router.add_get(prefix + "/queue", self._get_queue)
            app.router.add_post(prefix + "/queue", self._change_queue)
            app.router.add_get(prefix + "/history/{id}", self._entry)
            app.router.add_post(prefix + "/interrupt", self._interrupt)
            app.router.add_post(prefix + "/free", self._free)
            app.router.add_get(prefix + "/system_stats", self._stats)
            app.router.add_get(prefix + "/object_info", self._classes)
        if self.new_api:
            app.router.add_post("/api/jobs/{id}/cancel", self._cancel)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, shutdown_timeout=0.1, reuse_address=True)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]
        self._wake = asyncio.Event()
        self._worker = asyncio.ensure_future(self._work())

    async def die(self) -> None:
        """As by SIGKILL: its memory is free, its queue and history are gone."""
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)
        for socket in list(self._sockets.values()):
            if socket._req and socket._req.transport:
                socket._req.transport.abort()
        await self._runner.cleanup()
        if self.gpu:
            self.gpu.give(self.who)

    # --- the worker

    async def _work(self) -> None:
        while True:
            if not self._pending and not self._wake.is_set():
                await self._wake.wait()
            self._wake.clear()
            if self._pending:
                item = min(self._pending, key=lambda item: (item[0], item[1]))
                self._pending.remove(item)
                self._running.append(item)
                await self._tell_status()
                await self._execute(item)
            flags, self._flags = self._flags, {}
            if flags:
                self._unload()
                self._cached.clear()
                self.events.append(("freed", ""))
            if self._pending:
                self._wake.set()

    def _unload(self) -> None:
        if self.gpu:
            above = self.gpu.taken[self.who] - 400
            self.gpu.give(self.who, max(0.0, above - self.kept_mib))

    async def _execute(self, item: list) -> None:
        number, id, graph, extra, outputs = item
        client = extra.get("client_id", "")
        self.events.append(("began", id))
        self.on_begin()
        self._interrupted = False
        states: dict[str, dict] = {}
        made: dict[str, dict] = {}
        messages: list[list] = []

        async def tell(type: str, data: dict, keep: bool = False) -> None:
            if keep:
                messages.append([type, data])
            await self._send(client, type, data)

        async def progress(node: str, value: float, most: float, state: str) -> None:
            states[node] = {"value": value, "max": most, "state": state, "node_id": node, "prompt_id": id, "display_node_id": node, "parent_node_id": None,
                            "real_node_id": node}
            await tell("progress_state", {"prompt_id": id, "nodes": dict(states)})

        await tell("execution_start", {"prompt_id": id, "timestamp": 0}, keep=True)
        order = self._order(graph, outputs)
        cached = [node for node in order if self._cached.get(node) == self._made_from(graph, node)]
        await tell("execution_cached", {"nodes": cached, "prompt_id": id, "timestamp": 0}, keep=True)
        last = ["execution_success", {"prompt_id": id, "timestamp": 0}]
        node = ""
        try:
            for node in order:
                if self._interrupted:
                    raise _Interrupted
                if node in cached:
                    if node in self._files:
                        made[node] = self._files[node]
                        await tell("executed", {"node": node, "display_node": node, "output": made[node], "prompt_id": id})
                        await progress(node, 1, 1, "finished")
                    continue
                await progress(node, 0.0, 1.0, "running")
                await tell("executing", {"node": node, "display_node": node, "prompt_id": id})
                made_here = await self._run_node(graph[node], node, id, tell, progress)
                if made_here:
                    made[node] = self._files[node] = made_here
                    await tell("executed", {"node": node, "display_node": node, "output": made_here, "prompt_id": id})
                await progress(node, *((1.0, 1.0) if states[node]["value"] == 0.0 else (states[node]["value"], states[node]["max"])), "finished")
                self._cached[node] = self._made_from(graph, node)
        except _Interrupted:
            last = ["execution_interrupted", {"prompt_id": id, "node_id": node, "node_type": graph[node]["class_type"], "executed": [], "timestamp": 0}]
        except _NodeFailed as why:
            last = ["execution_error", recorded("run_error")["history"]["status"]["messages"][-1][1] | {
                "prompt_id": id, "node_id": node, "node_type": graph[node]["class_type"], "exception_message": why.message, "exception_type": why.type}]
            if "OutOfMemory" in why.type:
                self._unload()
        messages.append(last)
        success = last[0] == "execution_success"
        self._history[id] = {"prompt": item, "outputs": made if success else {}, "status": {
            "status_str": "success" if success else "error", "completed": success, "messages": messages},
            "meta": {node: {"node_id": node, "display_node": node, "parent_node": None, "real_node_id": node} for node in made} if success else {}}
        self._running.clear()
        self.events.append(("ended", id))
        await tell(*last)
        await self._tell_status()
        await tell("executing", {"node": None, "prompt_id": id})

    async def _run_node(self, node: dict, id: str, prompt_id: str, tell, progress) -> dict | None:
        inputs = node["inputs"]
        if node["class_type"] in ("SaveImage", "PreviewImage"):
            self._saved += 1
            return {"images": [{"filename": f"{inputs.get('filename_prefix', 'preview')}_{self._saved:05}_.png", "subfolder": "", "type": "output"}]}
        if node["class_type"] != "EbbTestWork":
            return None
        while self.worker_dead:
            await asyncio.sleep(STEP_S)
        if self.gpu and self.spike_mib:
            self.gpu.take(self.who, self.spike_mib)
            await asyncio.sleep(0.3)
            self.gpu.give(self.who, self.spike_mib)
        if self.gpu and inputs["mib"]:
            self.gpu.take(self.who, min(inputs["mib"], self.gpu.free_mib))
        steps = max(1, round(inputs["seconds"] / STEP_S))
        for step in range(1, steps + 1):
            await asyncio.sleep(inputs["seconds"] / steps)
            if not inputs["deaf"]:
                if self._interrupted and not self.swallows:
                    raise _Interrupted
                self._interrupted = False
                await progress(id, step, steps, "running")
                await tell("progress", {"value": step, "max": steps, "prompt_id": prompt_id, "node": id})
        if inputs["ends"] == "in an error":
            raise _NodeFailed("ValueError", "told to fail\n")
        if inputs["ends"] == "out of memory":
            raise _NodeFailed("torch.OutOfMemoryError", recorded("run_out_of_memory")["history"]["status"]["messages"][-1][1]["exception_message"])
        return None

    @staticmethod
    def _order(graph: dict, outputs: list[str]) -> list[str]:
        order: list[str] = []

        def visit(node: str) -> None:
            for value in graph[node]["inputs"].values():
                if isinstance(value, list):
                    visit(value[0])
            if node not in order:
                order.append(node)

        for output in outputs:
            visit(output)
        return order

    def _made_from(self, graph: dict, node: str) -> str:
        inputs = graph[node]["inputs"]
        return json.dumps([graph[node]["class_type"], {k: self._made_from(graph, v[0]) if isinstance(v, list) else v for k, v in inputs.items()}])

    # --- the websocket

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        client = request.query.get("clientId") or uuid.uuid4().hex
        self._sockets[client] = socket
        await socket.send_json({"type": "status", "data": {"status": self._info(), "sid": client}})
        try:
            async for _ in socket:
                pass
        finally:
            self._sockets.pop(client, None)  # also if another one has taken the name over, as the real one does
        return socket

    async def _send(self, client: str, type: str, data: dict) -> None:
        if not self.silent:
            for each in [self._sockets.get(client)] if type != "status" else list(self._sockets.values()):
                if each is not None:
                    try:
                        await each.send_json({"type": type, "data": data})
                    except (ConnectionError, RuntimeError):
                        pass

    async def _tell_status(self) -> None:
        await self._send("", "status", {"status": self._info()})

    def _info(self) -> dict:
        return {"exec_info": {"queue_remaining": len(self._pending) + len(self._running)}}

    # --- HTTP

    @web.middleware
    async def _stall(self, request: web.Request, handler) -> web.StreamResponse:
        if request.method == "POST" and request.path.endswith("/prompt"):
            await request.read()
        while self.stalled:
            await asyncio.sleep(0.02)
        if request.method == "POST" and request.path.endswith("/prompt"):
            await asyncio.sleep(self.slow_to_queue_s)
        return await handler(request)

    async def _get_info(self, request: web.Request) -> web.Response:
        if "User-Agent" not in request.headers or "Origin" in request.headers:
            self.last_headers = dict(request.headers)
        return web.json_response(self._info())

    async def _get_queue(self, request: web.Request) -> web.Response:
        return web.json_response({"queue_running": self._running, "queue_pending": self._pending})

    async def _prompt(self, request: web.Request) -> web.Response:
        body = await request.json()
        graph = body.get("prompt")
        for refusal in recorded("refusals").values():
            if refusal["graph"] == graph:
                return web.json_response(refusal["body"], status=refusal["status"])
        broken = recorded("run_partly_broken")
        errors = broken["answer"]["body"]["node_errors"] if graph == broken["graph"] else {}
        id = body.get("prompt_id") or str(uuid.uuid4())
        outputs = [node for node in graph if graph[node]["class_type"] in ("SaveImage", "PreviewImage") and node not in errors]
        extra = dict(body.get("extra_data", {})) | ({"client_id": body["client_id"]} if "client_id" in body else {})
        number, self._number = self._number, self._number + 1
        self._pending.append([number, id, graph, extra, outputs])
        await self._tell_status()
        self._wake.set()
        return web.json_response({"prompt_id": id, "number": number, "node_errors": errors})

    async def _change_queue(self, request: web.Request) -> web.Response:
        body = await request.json()
        gone = body.get("delete", [])
        self._pending = [] if body.get("clear") else [item for item in self._pending if item[1] not in gone]
        await self._tell_status()
        return web.Response()

    async def _entry(self, request: web.Request) -> web.Response:
        id = request.match_info["id"]
        return web.json_response({id: self._history[id]} if id in self._history else {})

    async def _interrupt(self, request: web.Request) -> web.Response:
        id = (await request.json() if request.can_read_body else {}).get("prompt_id")
        if id is None or any(item[1] == id for item in self._running):
            self._interrupted = True
            self.events.append(("interrupted", id or "whatever runs"))
        return web.Response()

    async def _cancel(self, request: web.Request) -> web.Response:
        id = request.match_info["id"]
        known = any(item[1] == id for item in self._pending + self._running)
        self._pending = [item for item in self._pending if item[1] != id]
        self._interrupted = self._interrupted or any(item[1] == id for item in self._running)
        return web.json_response({"cancelled": known})

    async def _free(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.frees.append(body)
        self.frees_while_busy += bool(self._running or self._pending)
        for flag in ("unload_models", "free_memory"):
            if body.get(flag):
                self._flags[flag] = True
        if self._flags and self.wakeups_lost > 0:
            self.wakeups_lost -= 1
        elif self._flags:
            self._wake.set()
        return web.Response()

    async def _classes(self, request: web.Request) -> web.Response:
        return web.json_response(self.classes)

    async def _stats(self, request: web.Request) -> web.Response:
        stats = recorded("system_stats")
        stats["system"]["argv"] = self.argv
        device = stats["devices"][0]
        if self.gpu:
            total, free = int(self.gpu.total_mib) << 20, int(self.gpu.free_mib) << 20
            device |= {"name": self.device_name, "type": "cuda", "index": 0, "vram_total": total, "vram_free": free, "torch_vram_total": (int(self.gpu.taken[self.who]) - 400) << 20, "torch_vram_free": 0}
        return web.json_response(stats)
