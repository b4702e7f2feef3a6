# tests/comfy/support/simulated_gpu.py: a GPU's memory as its driver counts it: who has taken how much. Shared by the stand-ins of ComfyUI and of Ebb.
from __future__ import annotations

from pathlib import Path


class SimulatedGpu:
    def __init__(self, total_mib: float, uuid: str = "GPU-11111111-2222-3333-4444-555555555555", pci_address: str = "0000:01:00.0", name: str = "NVIDIA Test 24"):
        self.total_mib, self.uuid, self.pci_address, self.name = total_mib, uuid, pci_address, name
        self.taken: dict[str, float] = {}
        self.changed = lambda: None

    @property
    def free_mib(self) -> float:
        return self.total_mib - sum(self.taken.values())

    def take(self, who: str, mib: float) -> None:
        assert mib <= self.free_mib, f"{who} takes {mib} MiB of {self.free_mib}"
        self.taken[who] = self.taken.get(who, 0.0) + mib
        self.changed()

    def give(self, who: str, mib: float | None = None) -> None:
        self.taken[who] = 0.0 if mib is None else self.taken[who] - mib
        assert self.taken[who] >= 0
        self.changed()


def write_nvidia_smi(folder: Path, gpus: list[SimulatedGpu], processes: dict[int, str]) -> None:
    """A program of that name, which lists these GPUs in this order, as they are now, and the processes (pid: uuid) on them."""
    lines = "\n".join(f"{gpu.uuid}, 0000{gpu.pci_address}, {gpu.name}, {gpu.free_mib:.0f}" for gpu in gpus)
    users = "\n".join(f"{pid}, {uuid}" for pid, uuid in processes.items())
    _write(folder, f"cat <<END\n{lines}\nEND\n", f"cat <<END\n{users}\nEND\n", "")


def follow_by_nvidia_smi(folder: Path, gpu: SimulatedGpu, processes: dict[int, str]) -> None:
    """The same of one GPU, as it is at each call, and what each process (pid: by what name it takes memory there) holds."""
    def write() -> None:
        if not folder.exists():  # the test is over
            return
        (folder / "gpu").write_text(f"{gpu.uuid}, 0000{gpu.pci_address}, {gpu.name}, {gpu.free_mib:.0f}\n")
        held = folder / "held.new"
        held.write_text("".join(f"{pid}, {gpu.uuid}, {gpu.taken.get(who, 0):.0f}\n" for pid, who in processes.items()))
        held.replace(folder / "held")

    gpu.changed = write
    write()
    _write(folder, f"cat {folder}/gpu", f"cut -d, -f1,2 {folder}/held", f"cat {folder}/held")


def _write(folder: Path, gpus: str, users: str, held: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncase $1 in\n  --query-gpu=*) {gpus}\n  ;;\n  --query-compute-apps=pid,gpu_uuid,used_memory) {held}\n  ;;\n"
                       f"  --query-compute-apps=*) {users}\n  ;;\nesac\n")
    program.chmod(0o755)
