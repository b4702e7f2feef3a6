# tools/ebb_sidecar/sampling.py: the most that a job was seen to take, looked at ten times a second or as often as a look's cost allows.
from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

SAMPLE_S = 0.1
REST = 3.0  # times as long as a look took: a driver's program that is slow to start is not asked all the time


class Most:
    """Between its creation and end(); take() says None where it is not known."""

    def __init__(self, take: Callable[[], Awaitable[float | None]]):
        self._take = take
        self.mib: float | None = None
        self._ended = False
        self._looking = asyncio.ensure_future(self._run())

    async def look(self) -> None:
        taken = await self._take()
        if taken is not None:
            self.mib = max(self.mib or 0.0, taken)

    async def _run(self) -> None:
        while not self._ended:
            began = time.monotonic()
            await self.look()
            await asyncio.sleep(max(SAMPLE_S, REST * (time.monotonic() - began)))

    async def end(self) -> None:
        self._ended = True  # a cancellation alone can be lost in a look: wait_for of Python 3.11 drops one that comes with its result
        self._looking.cancel()
        await asyncio.gather(self._looking, return_exceptions=True)
