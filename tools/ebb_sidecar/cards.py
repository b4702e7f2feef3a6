# tools/ebb_sidecar/cards.py: which of Ebb's cards a ComfyUI computes on.
#
# ComfyUI names its GPU by CUDA's number among the visible ones, nvidia-smi counts by PCI address, Ebb by the order of its cards: numbers
# of different programs are never compared. What is: UUIDs and PCI addresses. In this order: the process behind ComfyUI's port in the
# driver's list of processes; a UUID in its CUDA_VISIBLE_DEVICES or --cuda-device; a model name that one GPU alone has. Otherwise the user is asked.
from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from . import gpus
from .outcome import Exit, Failure

LENT_THROUGH = "say which card with --device: its number in `ebb status`, its UUID (GPU-...) or its PCI address, as in `nvidia-smi -q`"


@dataclass
class Choice:
    devices: list[int]  # Ebb's numbers; several: cards that share one GPU
    how: str
    uuid: str = ""
    pid: int | None = None  # ComfyUI's, on this machine
    notes: list[str] = field(default_factory=list)


def describe(card: dict) -> str:
    name = f" ({card['gpu_name']}, {card['pci_address']})" if card.get("gpu_name") else ""
    return f"card {card['device']}{name or ' (' + card['kind'] + ')'}"


def _on_gpu(cards: Sequence[dict], uuid: str) -> list[dict]:
    return [card for card in cards if gpus.same_uuid(card.get("uuid", ""), uuid)]


def named(cards: Sequence[dict], text: str) -> list[dict]:
    """The cards that --device names. Raises Failure."""
    if text.isdigit():
        found = [card for card in cards if card["device"] == int(text)]
    else:
        found = _on_gpu(cards, text) or [card for card in cards if gpus.same_pci_address(card.get("pci_address", ""), text)]
    if found:
        return found
    there = ", ".join(describe(card) + (f" {card['uuid']}" if card.get("uuid") else "") for card in cards)
    raise Failure(Exit.BAD_INPUT, f"Ebb has no card {text!r}; it has {there}", LENT_THROUGH, "nothing was lent and nothing was queued")


def _option(argv: Sequence[str], name: str) -> str:
    for i, word in enumerate(argv):
        if word == name and i + 1 < len(argv):
            return argv[i + 1]
        if word.startswith(name + "="):
            return word.split("=", 1)[1]
    return ""


async def gpu_of_comfyui(url: str, stats: dict, cards: Sequence[dict]) -> tuple[list[dict], str, int | None]:
    """The cards on ComfyUI's GPU and how that is known, or none and why not; and ComfyUI's pid."""
    devices = stats.get("devices") or [{}]
    at = urlsplit(url)
    pid = await asyncio.to_thread(gpus.pid_listening_on, at.hostname or "127.0.0.1", at.port or 80)
    if devices[0].get("type") == "cpu":
        return [], "ComfyUI computes on the CPU", pid
    argv = [str(word) for word in (stats.get("system") or {}).get("argv", [])]
    if pid is not None:
        uuids = await gpus.uuids_of_process(pid)
        if len(uuids) == 1 and (found := _on_gpu(cards, uuids[0])):
            return found, f"the driver shows ComfyUI (pid {pid}) there", pid
        if len(uuids) == 1:
            return [], f"the driver shows ComfyUI (pid {pid}) on {uuids[0]}, of which Ebb has no card", pid
    visible = _option(argv, "--cuda-device") or (gpus.environment_of(pid).get("CUDA_VISIBLE_DEVICES", "") if pid else "")
    first = visible.split(",")[0].strip()
    if first.lower().startswith("gpu-") and (found := _on_gpu(cards, first)):
        return found, "CUDA_VISIBLE_DEVICES of ComfyUI names it", pid
    name = devices[0].get("name", "")
    alike = [card for card in cards if card.get("gpu_name") and f" {card['gpu_name']} " in f" {name.replace(':', ' ')} "]
    there = await gpus.gpus()
    if alike and len({card.get("uuid") for card in alike}) == 1 and sum(gpu.name == alike[0]["gpu_name"] for gpu in there) <= 1:
        return alike, f"no other GPU is a {alike[0]['gpu_name']}", pid
    return [], f"ComfyUI says only {name!r}, which fits no GPU, or several, and the driver's list does not show its process", pid


async def choose(url: str, stats: dict, cards: Sequence[dict], wanted: str) -> Choice:
    """The card for `wanted` ("auto", or what --device takes). Raises Failure where it cannot be told, or is another GPU than ComfyUI's."""
    seen, how, pid = await gpu_of_comfyui(url, stats, cards)
    if wanted == "auto":
        if not seen:
            raise Failure(Exit.BAD_INPUT, f"cannot tell which of Ebb's cards ComfyUI is on: {how}", LENT_THROUGH, "nothing was lent and nothing was queued")
        found = seen
    else:
        found = named(cards, wanted)
        if seen and not any(card["device"] == found[0]["device"] for card in seen):
            raise Failure(Exit.BAD_INPUT, f"ComfyUI is on {describe(seen[0])} ({how}), not on {describe(found[0])}, which --device {wanted} names",
                          f"--device {seen[0]['device']}, or --device auto", "nothing was lent and nothing was queued")
    choice = Choice([card["device"] for card in found], how if seen else f"as --device {wanted} says", found[0].get("uuid", ""), pid)
    if not seen:
        choice.notes.append(f"cannot check that ComfyUI is on {describe(found[0])}: {how}")
    if wanted != "auto" and wanted.isdigit() and choice.uuid:
        # A number names one card; memory is of its GPU.
        shared = [card["device"] for card in _on_gpu(cards, choice.uuid)]
        choice.devices = [int(wanted), *(device for device in shared if device != int(wanted))]
    return choice
