# tools/ebb_sidecar/lease.py: memory of a card that Ebb lends us, kept for as long as it is needed.
#
# A lease has three ends besides ours: its time (ttl_s), which is renewed in thirds; this process (pid); and, on another machine or in
# a container, where a pid means nothing, its time alone. So whatever becomes of us, Ebb has its memory back.
from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Sequence

from .bus import Ebb, EbbError, NoDaemon

Say = Callable[[str], None]
TTL_S = 60
RESIZE_S = 60.0  # the daemon's own limit to a resize is below
RETRY_S = 1.0


class Lease:
    """Between acquire() and end() it is renewed; a daemon that forgot it is asked for it again."""

    def __init__(self, ebb: Ebb, asked: dict, granted: dict, say: Say):
        self._ebb, self._asked, self._say = ebb, asked, say
        lease = granted["leases"][0]
        self.id: int = lease["lease_id"]
        self.device: int = lease["device"]
        self.mib: int = lease["mib"]
        self.warning: str = granted.get("warning", "")
        self._renewal = asyncio.ensure_future(self._keep())

    @classmethod
    async def acquire(cls, ebb: Ebb, owner: str, device: int, mib: int, say: Say, *, min_mib: int | None = None, wait_s: int = 0,
                      ttl_s: int = TTL_S) -> Lease:
        """Raises EbbError (short_of: nothing has changed) or NoDaemon. Who is cancelled leaves no lease behind."""
        asked = {"action": "acquire", "owner": owner[:60], "device": device, "mib": mib, "min_mib": min_mib, "ttl_s": ttl_s, "wait_s": wait_s,
                 "pid": os.getpid() if ebb.is_local else None, "id": str(uuid.uuid4())}
        try:
            granted = await ebb.ask("lease", patience_s=wait_s + RESIZE_S, **asked)
        except EbbError as why:
            if why.code != "bad_value" or asked["pid"] is None:
                raise
            # It does not see our process: one of us is in a container. Anything else that is wrong is refused again.
            asked |= {"pid": None, "id": str(uuid.uuid4())}
            granted = await ebb.ask("lease", patience_s=wait_s + RESIZE_S, **asked)
            say(f"Ebb does not see this process ({why.text.split(';')[0]}); if it is killed, its lease ends within {ttl_s} s")
        return cls(ebb, asked, granted, say)

    async def _keep(self) -> None:
        ttl_s = self._asked["ttl_s"]
        missed = False
        while True:
            await asyncio.sleep(RETRY_S if missed else ttl_s / 3)
            try:
                await self._ebb.ask("lease", action="renew", lease_id=self.id, ttl_s=ttl_s)
                if missed:
                    self._say(f"Ebb answers again; lease {self.id} still holds")
                missed = False
            except NoDaemon as why:
                if not missed:
                    self._say(f"{why}; lease {self.id} is renewed when it does")
                missed = True
            except EbbError as why:
                if why.code == "unknown_lease":
                    missed = not await self._acquire_again()
                else:
                    missed = True  # not loaded yet, or busy

    async def _acquire_again(self) -> bool:
        try:
            again = await self._ebb.ask("lease", patience_s=RESIZE_S, **self._asked | {"wait_s": 0})
        except (EbbError, NoDaemon) as why:
            self._say(f"Ebb does not know lease {self.id} any more, and cannot lend it again now: {why}")
            return False
        known, self.id, self.mib = self.id, again["leases"][0]["lease_id"], again["leases"][0]["mib"]
        self._say(f"Ebb did not know lease {known} any more; it holds again, as lease {self.id} of {self.mib} MiB")
        return True

    async def end(self, patience_s: float = 15.0) -> bool:
        """Gives it back. False: Ebb does not answer, so that it ends with this process or its time."""
        self._renewal.cancel()
        until = time.monotonic() + patience_s
        while True:
            try:
                await self._ebb.ask("lease", action="release", lease_id=self.id)
                return True
            except EbbError as why:
                if why.code == "unknown_lease":
                    return True
            except NoDaemon:
                pass
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(RETRY_S)


def _lent_by(leases: Sequence[Lease], device: int) -> int:
    return sum(lease.mib for lease in leases if lease.device == device)


def lent_on_gpu(leases: Sequence[Lease]) -> int:
    """MiB of one GPU that leases of its cards make free. On one card they add up; each card's sum is already of the whole GPU, so of several
    cards the largest counts."""
    return max((_lent_by(leases, lease.device) for lease in leases), default=0)


async def acquire_on_gpu(ebb: Ebb, owner: str, devices: list[int], mib: int, say: Say, *, min_mib: int | None = None, wait_s: int = 0,
                         ttl_s: int = TTL_S, held: Sequence[Lease] = ()) -> list[Lease]:
    """More leases, until with those that are `held` `mib` are free on one GPU, of which Ebb may have several cards. Each of them counts for
    itself, so the ones before the last give what they have, and the last one is asked that so much is free on the GPU: free already is what
    the others gave. `min_mib`: go on with so much in all, once all of it was waited for. Raises as Lease.acquire does; nothing new is held then."""
    leases: list[Lease] = []
    try:
        for device in devices[:-1]:
            try:
                leases.append(await Lease.acquire(ebb, owner, device, mib - _lent_by(held, device), say, min_mib=1, ttl_s=ttl_s))
            except EbbError as why:
                if why.code != "short_of":
                    raise
                continue  # at its floor
            if lent_on_gpu([*held, *leases]) >= mib:
                return leases
        leases.append(await _acquire_last(ebb, owner, devices[-1], mib - _lent_by(held, devices[-1]), say,
                                          None if min_mib is None else max(1, min_mib - _lent_by(held, devices[-1])), wait_s, ttl_s))
        return leases
    except BaseException:
        for lease in leases:
            await lease.end()
        raise


async def _acquire_last(ebb: Ebb, owner: str, device: int, mib: int, say: Say, min_mib: int | None, wait_s: int, ttl_s: int) -> Lease:
    # Who says that less is of use is granted less at once, whatever wait_s says: so all of it is waited for first.
    if min_mib is not None and wait_s > 0:
        try:
            return await Lease.acquire(ebb, owner, device, mib, say, wait_s=wait_s, ttl_s=ttl_s)
        except EbbError as why:
            if why.code != "short_of":
                raise
        wait_s = 0
    return await Lease.acquire(ebb, owner, device, mib, say, min_mib=min_mib, wait_s=wait_s, ttl_s=ttl_s)
