# tools/ebb_sidecar/gate.py: a port in front of ComfyUI: everything passes, but POST /prompt only once the memory for it is lent.
#
# Host and Origin are passed on as they came: ComfyUI refuses pages of other origins by comparing the two, and must go on doing so.
from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from yarl import URL

from .borrower import Borrower

# Of one connection, not of the message (RFC 9110, 7.6.1); what concerns its length is written anew.
_HOP_BY_HOP = {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "expect"}
_HANDSHAKE = _HOP_BY_HOP | {"sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions", "sec-websocket-protocol"}
STOP_S = 10.0  # for ComfyUI to take the jobs that wait here when the sidecar stops
BODY_MAX = 1 << 30  # pictures are uploaded through it; ComfyUI has its own limit


def _headers(given, without: set[str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in given.items() if name.lower() not in without]


def _has_left(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


class Gate:
    def __init__(self, name: str, upstream: str, borrower: Borrower, session: aiohttp.ClientSession, say: Callable[[str], None]):
        self._name, self._upstream, self._borrower, self._session, self._say = name, upstream.rstrip("/"), borrower, session, say
        self._runner: web.AppRunner | None = None
        self.port = 0
        self._stopping = asyncio.Event()
        self._held = 0  # jobs that are not in ComfyUI's queue yet

    async def start(self, host: str, port: int) -> None:
        """Raises OSError where the port is taken."""
        app = web.Application(client_max_size=BODY_MAX)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, shutdown_timeout=1.0)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Jobs that wait for memory are handed to ComfyUI without it: it may be slow for them, but none is lost."""
        if self._held:
            self._say(f"{self._name}: {self._held} job(s) that waited for memory go to ComfyUI without it")
        self._stopping.set()
        until = asyncio.get_running_loop().time() + STOP_S
        while self._held and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.05)
        if self._held:
            self._say(f"{self._name}: ComfyUI has not taken {self._held} job(s) within {STOP_S:.0f} s; queue them again")
        if self._runner:
            await self._runner.cleanup()

    def _target(self, request: web.Request) -> URL:
        path = request.raw_path
        if not path.startswith("/"):  # a whole address, as to a proxy (RFC 9112, 3.2.2)
            at = urlsplit(path)
            path = (at.path or "/") + ("?" + at.query if at.query else "")
        return URL(self._upstream + path, encoded=True)

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        try:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._pass_socket(request)
            if request.method == "POST" and request.path in ("/prompt", "/api/prompt"):
                return await self._hold(request)
            return await self._forward(request, request.content if request.body_exists else None)
        except (ConnectionError, aiohttp.ClientPayloadError):
            return web.Response(status=499)  # the client left in the middle of what it sent; nobody reads this

    async def _hold(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        try:
            graph = json.loads(body)["prompt"]
            workflow = await self._borrower.workflow_of(graph)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return await self._forward(request, body)  # ComfyUI says what is wrong with it
        self._held += 1
        try:
            async with contextlib.AsyncExitStack() as lent:
                await self._unless_stopping(lent.enter_async_context(self._borrower.memory_for(workflow)))
                if _has_left(request):
                    self._say(f"{self._name}: a client left before the memory for its job was there; the job is not queued")
                    return web.Response(status=499)
                return await self._forward(request, body)
        finally:
            self._held -= 1

    async def _unless_stopping(self, what) -> None:
        """Until it is done; it is broken off when the sidecar stops."""
        doing, stop = asyncio.ensure_future(what), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({doing, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not doing.done():
                doing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await doing

    async def _forward(self, request: web.Request, body) -> web.StreamResponse:
        headers = _headers(request.headers, _HOP_BY_HOP)
        if isinstance(body, aiohttp.StreamReader) and request.content_length is not None:
            headers.append(("Content-Length", str(request.content_length)))
        passed = None
        try:
            async with self._session.request(request.method, self._target(request), headers=headers, data=body, allow_redirects=False,
                                             timeout=aiohttp.ClientTimeout(total=None, sock_connect=10), skip_auto_headers=("User-Agent", "Content-Type", "Accept", "Accept-Encoding"),
                                             ) as answer:
                passed = web.StreamResponse(status=answer.status, reason=answer.reason)
                passed.headers.extend(_headers(answer.headers, _HOP_BY_HOP))
                if "Content-Length" in answer.headers and request.method != "HEAD":
                    passed.content_length = int(answer.headers["Content-Length"])
                await passed.prepare(request)
                async for part in answer.content.iter_any():
                    await passed.write(part)
                await passed.write_eof()
                return passed
        except (aiohttp.ClientError, asyncio.TimeoutError, ConnectionError) as why:
            if passed is not None and passed.prepared:
                # An end in good order would make a whole answer of a part; so the connection breaks here as it broke there.
                if not _has_left(request):
                    self._say(f"{self._name}: ComfyUI broke off its answer to {request.method} {request.path}: {why or type(why).__name__}")
                    request.transport.abort()
                return passed
            if _has_left(request):
                return web.Response(status=499)
            return web.json_response({"error": {"type": "no_comfyui", "message": f"ComfyUI does not answer at {self._upstream}", "details": str(why), "extra_info": {}},
                                      "node_errors": {}}, status=502)

    async def _pass_socket(self, request: web.Request) -> web.StreamResponse:
        """Both ways, until one side ends. The browser's is accepted only once ComfyUI's is open."""
        try:
            there = await self._session.ws_connect(self._target(request), headers=_headers(request.headers, _HANDSHAKE), max_msg_size=0, autoclose=False, autoping=False)
        except aiohttp.WSServerHandshakeError as why:
            return web.Response(status=why.status)
        except (aiohttp.ClientError, asyncio.TimeoutError):
            return web.Response(status=502)
        here = web.WebSocketResponse(max_msg_size=0, autoclose=False, autoping=False)
        ways: list[asyncio.Future] = []
        try:
            await here.prepare(request)
            ways += [asyncio.ensure_future(_copy(there, here)), asyncio.ensure_future(_copy(here, there))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await there.close()
            if here.prepared:
                await here.close()
        return here


async def _copy(source, sink) -> None:
    while True:
        message = await source.receive()
        if message.type == aiohttp.WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type == aiohttp.WSMsgType.BINARY:
            await sink.send_bytes(message.data)
        elif message.type == aiohttp.WSMsgType.PING:
            await sink.ping(message.data)
        elif message.type == aiohttp.WSMsgType.PONG:
            await sink.pong(message.data)
        else:
            return
