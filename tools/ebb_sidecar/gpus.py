# tools/ebb_sidecar/gpus.py: what nvidia-smi and /proc say of GPUs and of the process behind a port.
from __future__ import annotations

import asyncio
import os
import shutil
import socket
from dataclasses import dataclass

NVIDIA_SMI_S = 10.0


@dataclass(frozen=True)
class Gpu:
    uuid: str
    pci_address: str
    name: str
    free_mib: int


def same_uuid(one: str, other: str) -> bool:
    return bool(one) and one.lower().removeprefix("gpu-") == other.lower().removeprefix("gpu-")


def same_pci_address(one: str, other: str) -> bool:
    """NVML writes the domain with eight digits, CUDA and lspci with four or none."""

    def parts(text: str) -> list[str]:
        found = text.lower().split(":")
        return [part.lstrip("0") or "0" for part in (found if len(found) == 3 else ["0", *found])]

    return one.count(":") in (1, 2) and parts(one) == parts(other)


async def _nvidia_smi(query: str) -> list[list[str]] | None:
    """Lines of fields; None: there is no nvidia-smi, or it failed."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    process = await asyncio.create_subprocess_exec(program, query, "--format=csv,noheader,nounits", stdout=asyncio.subprocess.PIPE,
                                                   stderr=asyncio.subprocess.DEVNULL)
    try:
        out, _ = await asyncio.wait_for(process.communicate(), NVIDIA_SMI_S)
    except asyncio.TimeoutError:
        process.kill()
        return None
    if process.returncode != 0:
        return None
    return [[field.strip() for field in line.split(",")] for line in out.decode(errors="replace").splitlines() if line.strip()]


async def gpus() -> list[Gpu]:
    lines = await _nvidia_smi("--query-gpu=uuid,pci.bus_id,name,memory.free") or []
    return [Gpu(line[0], line[1], line[2], int(line[3])) for line in lines if len(line) == 4 and line[3].isdigit()]


async def free_mib_of(uuid: str) -> int | None:
    """The driver's figure, read beside Ebb; None: there is nothing to read it with."""
    return next((gpu.free_mib for gpu in await gpus() if same_uuid(gpu.uuid, uuid)), None)


async def uuids_of_process(pid: int) -> list[str]:
    """The GPUs on which a process has a context. Empty also where a container hides that."""
    lines = await _nvidia_smi("--query-compute-apps=pid,gpu_uuid") or []
    return [line[1] for line in lines if len(line) == 2 and line[0] == str(pid)]


async def used_mib_on(uuid: str) -> dict[int, float] | None:
    """What each process holds on a GPU, by its number; None: nobody tells. A driver that hides figures (WSL, containers) shows none."""
    lines = await _nvidia_smi("--query-compute-apps=pid,gpu_uuid,used_memory")
    if lines is None:
        return None
    return {int(line[0]): float(line[2]) for line in lines if len(line) == 3 and same_uuid(line[1], uuid) and line[0].isdigit() and line[2].isdigit()}


def pid_listening_on(host: str, port: int) -> int | None:
    """The process of this machine that listens there; None: another machine's, another user's, or nobody."""
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError:
        return None
    if not any(address.startswith("127.") or address == "::1" for address in addresses):
        return None
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as file:
                for line in file.readlines()[1:]:
                    fields = line.split()
                    if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                        inodes.add(f"socket:[{fields[9]}]")
        except OSError:
            continue
    for pid in filter(str.isdigit, os.listdir("/proc")) if inodes else ():
        try:
            if any(os.readlink(f"/proc/{pid}/fd/{descriptor}") in inodes for descriptor in os.listdir(f"/proc/{pid}/fd")):
                return int(pid)
        except OSError:
            continue
    return None


def environment_of(pid: int) -> dict[str, str]:
    """As it was at the process's start; empty where it may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)
