# tests/comfy/support/: what the tests of the ComfyUI tools have in common.
import logging

logging.getLogger("asyncio").setLevel(logging.ERROR)  # that a step took 0.2 s on a busy machine is no news
logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # that a client left, or sent no JSON, is what is tested
