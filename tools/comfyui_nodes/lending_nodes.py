# tools/comfyui_nodes/lending_nodes.py: the nodes "Borrow VRAM" and "Return VRAM".
#
# Borrow comes before the first loader: as an output node without links it runs first of all, which ComfyUI does but does not promise; with
# something passed through it, it runs before whatever uses that. It runs anew in every job, and so does all behind it: pass models, not files.
import logging

from . import at_work, own_card
from .client import Call, EbbError, cards
from .held_leases import leases

STOP, GO_ON = "stop the workflow", "go on"


class _AnyType(str):
    """A socket that anything fits into: ComfyUI compares types by !=."""

    def __ne__(self, other):
        return False


ANY = _AnyType("*")


class _EveryTime:
    CATEGORY = "Ebb"
    OUTPUT_NODE = True

    @classmethod
    def IS_CHANGED(cls, **_):
        return float("nan")


class BorrowVram(_EveryTime):
    DESCRIPTION = "Ebb frees memory of the GPU for this workflow, until Return VRAM or the end of the job."

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"mib": ("INT", {"default": 8192, "min": 64, "max": 1 << 20, "tooltip": "MiB that the workflow takes beyond what ComfyUI holds when idle"}),
                             "gpu": ("INT", {"default": -1, "min": -1, "max": 63, "tooltip": "Ebb's card, its number in `ebb status`; -1: the one that ComfyUI computes on"}),
                             "at_least_mib": ("INT", {"default": 0, "min": 0, "max": 1 << 20, "tooltip": "take a smaller grant of at least this; 0: all or nothing"}),
                             "wait_s": ("INT", {"default": 10, "min": 0, "max": 3600, "tooltip": "wait so many seconds for room on the card"}),
                             "if_not_lent": ([STOP, GO_ON], {"tooltip": "what to do without the memory: ComfyUI then streams weights, which is slow"})},
                "optional": {"through": (ANY, {"tooltip": "anything, such as a model: what it goes on to runs after the memory is there"})},
                "hidden": {"node": "UNIQUE_ID"}}

    RETURN_TYPES = (ANY,)
    RETURN_NAMES = ("through",)
    FUNCTION = "borrow"

    def borrow(self, mib, gpu, at_least_mib, wait_s, if_not_lent, through=None, node=None):
        try:
            text = self._borrow(mib, gpu, at_least_mib, wait_s, node)
        except EbbError as why:
            if if_not_lent == STOP:
                raise
            text = f"not lent: {why}"
            logging.warning("ebb: %s", text)
        at_work.show(node, text)
        return {"ui": {"text": [text]}, "result": (through,)}

    def _borrow(self, mib, gpu, at_least_mib, wait_s, node):
        at_work.show(node, f"waiting for {mib} MiB")
        job = at_work.job()
        devices = [gpu] if gpu >= 0 else own_card.find_here(cards())
        # Of cards that share the GPU all but the last give what they have; the last is asked that so much is free on the GPU.
        for device in devices[:-1]:
            try:
                if self._acquire(job, device, mib, 1, 0) >= mib:
                    return f"{mib} MiB lent"
            except EbbError as why:
                if why.code != "short_of":
                    raise
        try:
            lent = self._acquire_last(job, devices[-1], mib, at_least_mib, wait_s)
        except BaseException:
            leases.give_back(leases.of(job))
            raise
        return f"{lent} MiB lent"

    def _acquire_last(self, job, device, mib, least_mib, wait_s):
        # Who says that less is of use is granted less at once: so all of it is waited for first.
        if 0 < least_mib < mib and wait_s > 0:
            try:
                return self._acquire(job, device, mib, 0, wait_s)
            except EbbError as why:
                if why.code != "short_of":
                    raise
            wait_s = 0
        return self._acquire(job, device, mib, least_mib, wait_s)

    def _acquire(self, job, device, mib, least_mib, wait_s):
        def ask(wanted):
            return at_work.waiting_for(Call("POST", "/v1/vram/leases", wanted, wait_s), lambda late: leases.give_back([leases.hold(job, late)[0]]))

        answer = leases.ask_for(leases.wanted(device, mib, least_mib, wait_s), ask)
        return leases.hold(job, answer)[1]


class ReturnVram(_EveryTime):
    DESCRIPTION = "Unloads ComfyUI's models and gives Ebb the memory of this workflow's Borrow VRAM back."

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"after": (ANY, {"tooltip": "what comes from the last node that needs the GPU, such as the picture of VAE Decode"}),
                             "unload_models": ("BOOLEAN", {"default": True, "tooltip": "without it the models stay on the GPU, and Ebb cannot use the memory yet"})},
                "hidden": {"node": "UNIQUE_ID"}}

    RETURN_TYPES = (ANY,)
    RETURN_NAMES = ("after",)
    FUNCTION = "give_back"

    def give_back(self, after, unload_models, node=None):
        if unload_models:
            self._unload()
        held = leases.of(at_work.job())
        leases.give_back(held)
        text = f"{len(held)} lease(s) returned" if held else "nothing was lent to this job"
        at_work.show(node, text)
        return {"ui": {"text": [text]}, "result": (after,)}

    @staticmethod
    def _unload():
        import comfy.cli_args
        import comfy.model_management
        comfy.model_management.unload_all_models()
        comfy.model_management.soft_empty_cache()
        if getattr(comfy.cli_args.args, "highvram", False) or getattr(comfy.cli_args.args, "gpu_only", False):
            # There models have no other place than the GPU; only dropping them, when the job is over, frees it.
            from server import PromptServer
            PromptServer.instance.prompt_queue.set_flag("free_memory", True)
