# tests/comfy/support/ebb_test_nodes/: a node for tests with the real ComfyUI: it takes time, and ends as it is told.
import time


class EbbTestWork:
    """`mib` is only for the stand-in of ComfyUI, which has a simulated GPU."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",),
                             "mib": ("INT", {"default": 0, "min": 0, "max": 1 << 20}),
                             "seconds": ("FLOAT", {"default": 0.0, "min": 0.0, "max": 600.0}),
                             "deaf": ("BOOLEAN", {"default": False}),
                             "ends": (["well", "in an error", "out of memory"],)}}

    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "work"
    CATEGORY = "Ebb/tests"

    def work(self, image, mib, seconds, deaf, ends):
        import comfy.utils
        import torch
        steps = max(1, round(seconds / 0.1))
        progress = None if deaf else comfy.utils.ProgressBar(steps)
        for _ in range(steps):
            time.sleep(seconds / steps)
            if progress:
                progress.update(1)  # looks for interrupts
        if ends == "in an error":
            raise ValueError("told to fail")
        if ends == "out of memory":
            raise torch.OutOfMemoryError("Allocation on device 0 would exceed allowed memory")
        return (image,)


NODE_CLASS_MAPPINGS = {"EbbTestWork": EbbTestWork}
NODE_DISPLAY_NAME_MAPPINGS = {"EbbTestWork": "Ebb test work"}
