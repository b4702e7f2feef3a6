# tests/comfy/support/simulated_gpu.py: a GPU's memory as its driver counts it: who has taken how much. Shared by the stand-ins of ComfyUI and of Ebb.
from __future__ import annotations

from pathlib import Path


class SimulatedGpu:
    def __init__(self, total_mib: float, uuid: str = "GPU-11111111-2222-3333-4444-555555555555", pci_address: str = "0000:01:00.0", name: str = "NVIDIA Test 24"):
        self.total_mib, self.uuid, self.pci_address, self.name = total_mib, uuid, pci_address, name
        self.taken: dict[str, float] = {}

    @property
    def free_mib(self) -> float:
        return self.total_mib - sum(self.taken.values())

    def take(self, who: str, mib: float) -> None:
        assert mib <= self.free_mib, f"{who} takes {mib} MiB of {self.free_mib}"
        self.taken[who] = self.taken.get(who, 0.0) + mib

    def give(self, who: str, mib: float | None = None) -> None:
        self.taken[who] = 0.0 if mib is None else self.taken[who] - mib
        assert self.taken[who] >= 0


def write_nvidia_smi(folder: Path, gpus: list[SimulatedGpu], processes: dict[int, str]) -> None:
    """A program of that name, which lists these GPUs in this order, as they are now, and the processes (pid: uuid) on them."""
    lines = "\n".join(f"{gpu.uuid}, 0000{gpu.pci_address}, {gpu.name}, {gpu.free_mib:.0f}" for gpu in gpus)
    users = "\n".join(f"{pid}, {uuid}" for pid, uuid in processes.items())
    program = folder / "nvidia-smi"
    program.write_text(f'#!/bin/sh\ncase $1 in\n  --query-gpu=*) cat <<END\n{lines}\nEND\n  ;;\n  --query-compute-apps=*) cat <<END\n{users}\nEND\n  ;;\nesac\n')
    program.chmod(0o755)
