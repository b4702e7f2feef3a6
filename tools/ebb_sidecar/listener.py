# tools/ebb_sidecar/listener.py: ComfyUI's news by websocket: progress, and a hint that it is time to look. Never a verdict.
#
# ComfyUI's own websocket falls silent when another client does not read, or when one of the same name closes; so whoever waits by it
# also asks by HTTP. Everything is read, since a client that does not read silences the others.
from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable

import aiohttp

RECONNECT_S = 2.0
PING_S = 20.0


class Listener:
    """`on_message(type, data)` for each message in text; `news` is set at each."""

    def __init__(self, url: str, session: aiohttp.ClientSession, on_message: Callable[[str, dict], None] | None = None):
        self.client_id = uuid.uuid4().hex  # a new one for every run: two of one name silence each other
        self.news = asyncio.Event()
        self.connected = asyncio.Event()
        self._url = url.rstrip("/").replace("http", "ws", 1) + "/ws?clientId=" + self.client_id
        self._session = session
        self._on_message = on_message
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        while True:
            try:
                async with self._session.ws_connect(self._url, heartbeat=PING_S, max_msg_size=0) as socket:
                    self.connected.set()
                    async for message in socket:
                        if message.type == aiohttp.WSMsgType.TEXT:
                            self._hear(message.data)
            except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
                pass
            self.connected.clear()
            self.news.set()
            await asyncio.sleep(RECONNECT_S)

    def _hear(self, text: str) -> None:
        self.news.set()
        try:
            message = json.loads(text)
            type, data = message["type"], message["data"]
        except (ValueError, KeyError, TypeError):
            return
        if self._on_message and isinstance(data, dict):
            self._on_message(type, data)

    async def wait(self, seconds: float) -> None:
        """Until something is heard, or so long at most."""
        waiting = asyncio.ensure_future(self.news.wait())
        try:  # not wait_for, which in Python 3.11 drops a cancellation that comes with the result
            await asyncio.wait({waiting}, timeout=seconds)
        finally:
            waiting.cancel()
        self.news.clear()

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
