# tools/comfyui_nodes/: nodes for ComfyUI that borrow memory from Ebb and ask its model (docs/COMFYUI.md). Copy this folder to
# ComfyUI/custom_nodes/ebb; it needs nothing beyond ComfyUI and Python.
from .ask_node import AskEbb
from .lending_nodes import BorrowVram, ReturnVram

NODE_CLASS_MAPPINGS = {"EbbBorrowVRAM": BorrowVram, "EbbReturnVRAM": ReturnVram, "EbbAsk": AskEbb}
NODE_DISPLAY_NAME_MAPPINGS = {"EbbBorrowVRAM": "Borrow VRAM (Ebb)", "EbbReturnVRAM": "Return VRAM (Ebb)", "EbbAsk": "Ask Ebb"}

__all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"]
