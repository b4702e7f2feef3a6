# tools/comfyui_nodes/own_card.py: which of Ebb's cards this ComfyUI computes on: by UUID or PCI address, never by a number, since CUDA, nvidia-smi
# and Ebb count in different orders.
from .client import EbbError


def _plain(uuid):
    return str(uuid).lower().removeprefix("gpu-")


def _pci_address(properties):
    parts = [getattr(properties, "pci_" + part, None) for part in ("domain_id", "bus_id", "device_id")]
    return "" if None in parts else "{:04x}:{:02x}:{:02x}.0".format(*parts)


def find(cards, is_cuda, properties):
    """Ebb's numbers of the cards on this GPU, several if they share it. Raises EbbError, which says what to do."""
    way_out = "set `gpu` of the node to the number of a card in `ebb status`: " + ", ".join(
        f"{card['device']} ({card.get('gpu_name') or card.get('kind')})" for card in cards)
    if not is_cuda:
        raise EbbError("unknown_device", "ComfyUI computes on the CPU, so which card is meant cannot be told; " + way_out)
    uuid, address = getattr(properties, "uuid", None), _pci_address(properties)
    found = [card for card in cards if uuid and _plain(card.get("uuid", "")) == _plain(uuid)]
    found = found or [card for card in cards if address and card.get("pci_address", "").lower()[-len(address):] == address]
    if not found:
        raise EbbError("unknown_device", f"Ebb has no card on ComfyUI's GPU ({properties.name}, {uuid or address or 'of unknown address'}); " + way_out)
    return [card["device"] for card in found]


def find_here(cards):
    import comfy.model_management
    import torch
    device = comfy.model_management.get_torch_device()
    is_cuda = device.type == "cuda"
    return find(cards, is_cuda, torch.cuda.get_device_properties(device) if is_cuda else None)
