# tools/comfyui_nodes/ask_node.py: the node "Ask Ebb": a text from Ebb's model, such as a better prompt, in the same graph.
import re

from . import at_work
from .client import Call, EbbError

ENHANCE = "You improve prompts for an image generator. Answer with one improved prompt in English, at most 80 words, and nothing else."
SHOW_CHARS = 400


def without_thinking(text):
    """What a reasoning model says after its thoughts; all of it if they did not end."""
    return re.sub(r"\A\s*<think>.*?</think>\s*", "", text, flags=re.DOTALL)


class AskEbb:
    DESCRIPTION = "Asks the model that Ebb serves. The same question, seed and temperature have the same answer, so it is asked once."
    CATEGORY = "Ebb"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"prompt": ("STRING", {"multiline": True, "default": "a cat on a roof", "tooltip": "the question, or the prompt to improve"}),
                             "system": ("STRING", {"multiline": True, "default": ENHANCE, "tooltip": "what the model is to do"}),
                             "max_tokens": ("INT", {"default": 256, "min": 1, "max": 32768}),
                             "temperature": ("FLOAT", {"default": 0.7, "min": 0.0, "max": 2.0, "step": 0.05}),
                             "seed": ("INT", {"default": 0, "min": 0, "max": 0x7FFFFFFF, "control_after_generate": True}),
                             "drop_thinking": ("BOOLEAN", {"default": True, "tooltip": "leave out what a reasoning model thinks before it answers"})},
                "hidden": {"node": "UNIQUE_ID"}}

    RETURN_TYPES = ("STRING",)
    RETURN_NAMES = ("text",)
    FUNCTION = "ask"

    def ask(self, prompt, system, max_tokens, temperature, seed, drop_thinking, node=None):
        messages = ([{"role": "system", "content": system}] if system.strip() else []) + [{"role": "user", "content": prompt}]
        call = Call("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": max_tokens, "temperature": temperature, "seed": seed, "stream": True})
        text = ""
        for event in at_work.events_of(call):
            for choice in event.get("choices", []):
                text += choice.get("delta", {}).get("content") or ""
            at_work.show(node, text[-SHOW_CHARS:])
        if drop_thinking:
            text = without_thinking(text)
        if not text.strip():
            raise EbbError("empty", "Ebb's model answered nothing; a larger max_tokens, or drop_thinking off, shows more")
        return (text.strip(),)
