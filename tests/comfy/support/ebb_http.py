# tests/comfy/support/ebb_http.py: an ebbd that serves HTTP. One that was built without it has a stand-in of the part that the nodes use
# in front of its bus, so that leases, cards and answers are its own.
from __future__ import annotations

import asyncio
import json
import uuid

import msgpack
import zmq
import zmq.asyncio
from aiohttp import web

from .programs import RunningEbbd
from .real_comfyui import free_port

async def ebbd_with_http(case, *settings: str, key: str = "") -> tuple[RunningEbbd, str]:
    """The daemon, and where it serves HTTP."""
    port = free_port()
    more = ["--set", f"http.listen=127.0.0.1:{port}"]
    if key:
        file = case.folder() / "key"
        file.write_text(key + "\n")
        file.chmod(0o600)
        more += ["--set", f"http.api_key_file={file}"]
    try:
        return await case.ebbd(*settings, *more), f"http://127.0.0.1:{port}"
    except AssertionError as why:
        if "setting `http`: this version does not serve it yet" not in str(why):
            raise
    daemon = await case.ebbd(*settings)
    stand_in = EbbHttp(daemon, key)
    await stand_in.start()
    case.addAsyncCleanup(stand_in.stop)
    return daemon, stand_in.url


STATUS = {"short_of": 409, "unknown_lease": 404, "busy": 409, "refused": 409}


class EbbHttp:
    def __init__(self, daemon: RunningEbbd, key: str = ""):
        self._daemon, self._key = daemon, key

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/v1/cards", self._cards)
        app.router.add_post("/v1/vram/leases", self._acquire)
        app.router.add_post("/v1/vram/leases/{id}", self._renew)
        app.router.add_delete("/v1/vram/leases/{id}", self._release)
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, shutdown_timeout=0.1)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _ask(self, request: web.Request, cmd: str, status: int = 200, **fields) -> web.Response:
        from ebb_sidecar.bus import EbbError
        if self._key and request.headers.get("Authorization") != "Bearer " + self._key:
            return self._refusal(401, "missing_api_key", "this service asks for a key")
        try:
            answer = await self._daemon.client.ask(cmd, patience_s=120, **fields)
        except EbbError as why:
            return self._refusal(STATUS.get(why.code, 400), why.code, why.text)
        if cmd == "lease" and len(answer["leases"]) == 1 and request.method == "POST":
            answer |= answer["leases"][0]
            del answer["leases"]
        return web.json_response(answer, status=status)

    @staticmethod
    def _refusal(status: int, code: str, text: str) -> web.Response:
        return web.json_response({"error": {"message": text, "type": "invalid_request_error", "param": None, "code": code}}, status=status)

    async def _cards(self, request: web.Request) -> web.Response:
        return await self._ask(request, "cards")

    async def _acquire(self, request: web.Request) -> web.Response:
        body = await request.json()
        # Who leaves before the answer leaves no lease behind.
        asking = asyncio.ensure_future(self._ask(request, "lease", 201, action="acquire", device=body.pop("gpu"), **body))
        while not asking.done():
            await asyncio.wait({asking}, timeout=0.1)
            if request.transport is None or request.transport.is_closing():
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                raise ConnectionResetError
        return asking.result()

    async def _renew(self, request: web.Request) -> web.Response:
        return await self._ask(request, "lease", action="renew", lease_id=int(request.match_info["id"]), ttl_s=(await request.json())["ttl_s"])

    async def _release(self, request: web.Request) -> web.Response:
        return await self._ask(request, "lease", action="release", lease_id=int(request.match_info["id"]))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        assert body["stream"] is True
        socket = zmq.asyncio.Context.instance().socket(zmq.DEALER)
        socket.linger = 0
        socket.connect(self._daemon.endpoint)
        id = str(uuid.uuid4())
        await socket.send(msgpack.packb({"v": 1, "id": id, "cmd": "generate", "prompt": body["messages"][-1]["content"], "max_tokens": body["max_tokens"],
                                         "temperature": body["temperature"], "seed": body["seed"], "ignore_eos": True}))
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        try:
            while True:
                reply = msgpack.unpackb(await socket.recv())
                if reply["type"] == "token":
                    delta = {"choices": [{"index": 0, "delta": {"content": reply["text"]}, "finish_reason": None}]}
                    await stream.write(b"data: " + json.dumps(delta).encode() + b"\n\n")
                if reply["last"]:
                    break
            await stream.write(b"data: [DONE]\n\n")
        finally:
            socket.close()  # a client that has left takes its answer with it
        return stream
