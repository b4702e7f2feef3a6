# tools/ebb_sidecar/bus.py: questions to Ebb over ZeroMQ (docs/BUS.md).
#
# Each question has a connection of its own: a daemon that was started again is reached by the next one, and an answer can never
# reach another reader. A monitor of the connection tells a daemon that is not there from one that takes its time.
from __future__ import annotations

import asyncio
import os
import stat
import tomllib
import uuid

import msgpack
import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

PATIENCE_S = 30.0  # for answers that wait for nothing; a resize takes milliseconds to seconds
CONNECT_S = 3.0


class EbbError(Exception):
    """Ebb refused: programs decide by `code`, people read `text`."""

    def __init__(self, code: str, text: str):
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class NoDaemon(Exception):
    """Nobody answers there, or no longer."""


def default_endpoint() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if not runtime:
        runtime = f"/run/user/{os.getuid()}"
        if not os.path.isdir(runtime):
            return f"ipc:///tmp/ebb-{os.getuid()}/commands"
    return f"ipc://{runtime}/ebb/commands"


def read_keys(path: str) -> dict[str, bytes]:
    """A client's file of keys, as `ebb keys client` makes it. Raises ValueError with what is wrong."""
    try:
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            raise ValueError(f"{path} may be opened by others: chmod 600 {path}")
        with open(path, "rb") as file:
            keys = tomllib.load(file)
        return {name: keys[name].encode() for name in ("public", "secret", "server")}
    except (OSError, tomllib.TOMLDecodeError, KeyError, AttributeError) as why:
        raise ValueError(f"{path} is no client's file of keys ({why}); `ebb keys client` makes one") from why


class Ebb:
    def __init__(self, endpoint: str | None = None, keys: dict[str, bytes] | None = None):
        self.endpoint = endpoint or default_endpoint()
        self._keys = keys
        self._context = zmq.asyncio.Context.instance()

    @property
    def is_local(self) -> bool:
        """Whether a process number means the same process to Ebb as to us."""
        return self.endpoint.startswith("ipc://") or any(
            self.endpoint.startswith(f"tcp://{host}:") for host in ("127.0.0.1", "localhost", "[::1]"))

    async def ask(self, cmd: str, *, id: str | None = None, patience_s: float = PATIENCE_S, **fields) -> dict:
        """The reply. Raises EbbError if Ebb refuses, NoDaemon if nobody answers."""
        request = {"v": 1, "id": id or str(uuid.uuid4()), "cmd": cmd} | {k: v for k, v in fields.items() if v is not None}
        socket = self._context.socket(zmq.DEALER)
        socket.linger = 0
        if self._keys:
            socket.curve_publickey, socket.curve_secretkey = self._keys["public"], self._keys["secret"]
            socket.curve_serverkey = self._keys["server"]
        news = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_CONNECT_RETRIED | zmq.EVENT_DISCONNECTED
                                         | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        try:
            socket.connect(self.endpoint)
            await self._connected(news)
            await socket.send(msgpack.packb(request))
            return await self._answer(socket, news, request["id"], patience_s)
        except zmq.ZMQError as why:
            raise NoDaemon(f"Ebb cannot be reached at {self.endpoint}: {why}") from why
        finally:
            socket.disable_monitor()
            news.close(linger=0)
            socket.close()

    async def _connected(self, news) -> None:
        first = asyncio.ensure_future(news.recv_multipart())
        try:  # not wait_for, which in Python 3.11 drops a cancellation that comes with the result
            await asyncio.wait({first}, timeout=CONNECT_S)
            event = parse_monitor_message(first.result())["event"] if first.done() else None
        finally:
            first.cancel()
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            return
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            raise NoDaemon(f"Ebb at {self.endpoint} does not let these keys in; `ebb keys client --add` on its machine does")
        raise NoDaemon(f"no Ebb answers at {self.endpoint}")

    async def _answer(self, socket, news, id: str, patience_s: float) -> dict:
        frame = asyncio.ensure_future(socket.recv())
        gone = asyncio.ensure_future(news.recv_multipart())
        try:
            await asyncio.wait({frame, gone}, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            if not frame.done():
                raise NoDaemon(f"Ebb at {self.endpoint} " + ("ended before it answered" if gone.done() else f"gave no answer in {patience_s:.0f} s"))
            reply = msgpack.unpackb(frame.result())
        finally:
            for each in (frame, gone):
                each.cancel()
        assert reply["id"] in (id, None), f"the answer to {reply['id']} came to {id}"
        if reply["type"] == "error":
            raise EbbError(reply["code"], reply["text"])
        return reply

    async def cards(self) -> list[dict]:
        return (await self.ask("cards"))["cards"]

    async def card(self, device: int) -> dict:
        return next(card for card in await self.cards() if card["device"] == device)
