#!/usr/bin/python3
# tests/comfy/record.py: records what the real ComfyUI answers, for its stand-in:   tests/comfy/record.py [INTO]
#
# One file a run: the graph, the answer to POST /prompt, every message of the websocket and the entry of the history. Ids and times are
# replaced by names, folders cut. stand_in_test.py compares the stand-in with these, real_comfyui_test.py the real one.
from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
import uuid
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import graphs, real_comfyui  # noqa: E402

RUNS = {"quick": graphs.quick(), "cached": graphs.quick(), "work": graphs.work(0.3), "error": graphs.work(0.1, ends="in an error"),
        "out_of_memory": graphs.work(0.1, ends="out of memory"), "interrupted": graphs.work(20.0), "partly_broken": graphs.partly_broken()}
REFUSALS = {"too_small": graphs.too_small(), "without_input": graphs.without_input(), "of_unknown_class": graphs.of_unknown_class(),
            "without_outputs": graphs.without_outputs(), "in_a_circle": graphs.in_a_circle()}


def cleaned(value, prompt_id: str = "", key: str = ""):
    if key in ("current_inputs", "current_outputs"):
        return type(value)()  # tensors, in full
    if isinstance(value, dict):
        return {name.replace(prompt_id, "PROMPT_ID") if prompt_id else name: cleaned(each, prompt_id, name) for name, each in value.items()}
    if isinstance(value, list):
        return [] if key == "traceback" else [cleaned(each, prompt_id) for each in value]
    if key == "timestamp":
        return 0
    if key in ("client_id", "sid"):
        return "CLIENT_ID"
    if isinstance(value, str):
        value = value.replace(prompt_id, "PROMPT_ID") if prompt_id else value
        return re.sub(r"/(?:[\w.+-]+/)+", "/.../", value)
    return value


async def record_run(url: str, session: aiohttp.ClientSession, name: str, graph: dict) -> dict:
    """The messages until `executing null`, which is the last one of a run."""
    prompt_id, client = str(uuid.uuid4()), uuid.uuid4().hex
    messages = []
    async with session.ws_connect(f"{url}/ws?clientId={client}", max_msg_size=0) as socket:
        await socket.receive()  # the first status
        body = {"prompt": graph, "prompt_id": prompt_id, "client_id": client}
        async with session.post(url + "/prompt", json=body) as response:
            answer = {"status": response.status, "body": await response.json()}
        while True:
            message = await socket.receive(timeout=30)
            if message.type != aiohttp.WSMsgType.TEXT:
                continue
            messages.append(json.loads(message.data))
            type, data = messages[-1]["type"], messages[-1]["data"]
            if name == "interrupted" and type == "progress":
                await (await session.post(url + "/interrupt", json={"prompt_id": prompt_id})).read()
                name = ""
            if type == "executing" and data["node"] is None:
                break
    history = await (await session.get(f"{url}/history/{prompt_id}")).json()
    return cleaned({"graph": graph, "answer": answer, "messages": messages, "history": history[prompt_id]}, prompt_id)


async def record(url: str) -> dict[str, dict]:
    """By the name of the file."""
    files = {}
    async with aiohttp.ClientSession() as session:
        for name, graph in RUNS.items():
            files["run_" + name] = await record_run(url, session, name, graph)
        refusals = {}
        for name, graph in REFUSALS.items():
            async with session.post(url + "/prompt", json={"prompt": graph}) as response:
                refusals[name] = {"graph": graph, "status": response.status, "body": cleaned(await response.json())}
        files["refusals"] = refusals
        files["system_stats"] = cleaned(await (await session.get(url + "/system_stats")).json())
    return files


def main() -> int:
    if reason := real_comfyui.why_not():
        print("tests/comfy/record.py: " + reason, file=sys.stderr)
        return 2
    into = Path(sys.argv[1]) if len(sys.argv) > 1 else real_comfyui.ROOT / "tests" / "data" / "comfyui"
    with tempfile.TemporaryDirectory() as folder:
        comfyui = real_comfyui.RealComfyUI(Path(folder))
        comfyui.start()
        try:
            for name, content in asyncio.run(record(comfyui.url)).items():
                (into / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
        finally:
            comfyui.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
