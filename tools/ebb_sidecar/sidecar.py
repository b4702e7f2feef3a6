# tools/ebb_sidecar/sidecar.py: the daemon: a borrower, a watcher and perhaps a gate for each ComfyUI, until it is told to stop.
from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import aiohttp

from .borrower import Borrower, Terms
from .bus import Ebb, read_keys
from .comfyui import ComfyUI
from .gate import Gate
from .peaks import Bounds, Peaks, default_file
from .settings import Server, Settings, Wrong, address_of
from .stop_signals import stop_signals
from .watcher import Watcher


def _peaks_of(settings: Settings) -> Peaks:
    if settings.peaks_file == "off":
        return Peaks(None)
    return Peaks(Path(settings.peaks_file).expanduser() if settings.peaks_file else default_file())


class Sidecar:
    def __init__(self, settings: Settings, say: Callable[[str], None]):
        """Raises ValueError where a file that the settings name is wrong."""
        self._settings, self._say = settings, say
        self._ebb = Ebb(settings.connect or None, read_keys(settings.keys) if settings.keys else None)
        self._peaks = _peaks_of(settings)
        self._borrowers: list[Borrower] = []
        self._gates: list[Gate] = []

    async def run(self) -> None:
        stop = asyncio.Event()
        for each in stop_signals():
            asyncio.get_running_loop().add_signal_handler(each, stop.set)
        # Without a limit to connections: an open page holds one for its websocket, and jobs wait in theirs.
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False) as passing, aiohttp.ClientSession() as asking:
            watchers = [asyncio.ensure_future(self._serve(server, asking, passing)) for server in self._settings.servers]
            stopping = asyncio.ensure_future(stop.wait())
            try:
                done, _ = await asyncio.wait([*watchers, stopping], return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()  # of a watcher: what it failed of
            finally:
                for each in [*watchers, stopping]:
                    each.cancel()
                await asyncio.gather(*watchers, stopping, return_exceptions=True)
                await asyncio.gather(*(gate.stop() for gate in self._gates))
                await asyncio.gather(*(borrower.end() for borrower in self._borrowers))
        self._say("stopped")

    async def _serve(self, server: Server, asking: aiohttp.ClientSession, passing: aiohttp.ClientSession) -> None:
        name = server.url.split("//", 1)[1]
        bounds = Bounds(server.first_guess_mib or server.max_mib, server.max_mib)
        comfyui = ComfyUI(server.url, asking)
        borrower = Borrower(name, self._ebb, comfyui, Terms(server.device, bounds, server.linger_s, server.wait_s), self._peaks, self._say, self._borrowers)
        self._borrowers.append(borrower)
        if server.listen:
            gate = Gate(name, server.url, borrower, passing, self._say)
            host, port = address_of(server.listen, lambda: Wrong("listen"))
            try:
                await gate.start(host, port)
            except OSError as why:
                raise Wrong(f"cannot listen on {server.listen}: {why.strerror}; name another address with listen") from why
            self._gates.append(gate)
            self._say(f"{name}: open http://{host}:{gate.port}; there a job waits until its memory is lent"
                      + ("; whoever reaches that port can use ComfyUI, which has no login" if server.allow_network else ""))
        else:
            self._say(f"{name}: its queue is watched; jobs do not wait for memory (listen opens a port where they do)")
        await Watcher(name, comfyui, borrower, bounds, self._peaks, asking, self._say).run()
