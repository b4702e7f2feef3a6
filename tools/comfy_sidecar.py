#!/usr/bin/python3
# tools/comfy_sidecar.py: lends memory of Ebb's cards to ComfyUI whenever it has jobs, and takes it back when it has none (docs/COMFYUI.md).
import argparse
import asyncio
import contextlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    from ebb_sidecar import settings
    from ebb_sidecar.sidecar import Sidecar
except ImportError as missing:
    sys.exit(f"comfy_sidecar: {missing}; on Debian: apt-get install python3-zmq python3-msgpack python3-aiohttp, and run it by /usr/bin/python3")


def say(text):
    with contextlib.suppress(OSError):  # a terminal that was closed; what is lent is given back all the same
        print("comfy_sidecar: " + text, file=sys.stderr, flush=True)


def parse():
    default = settings.Server()
    parser = argparse.ArgumentParser(prog="comfy_sidecar", description="Watches ComfyUI's queue. When a job comes, it leases what that workflow took last time from Ebb; when no job "
                                     "has come for a while it has ComfyUI let go of its memory and ends the lease. With --listen, jobs that come through that port wait until the memory is there.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings for several ComfyUIs, as in tools/comfy_sidecar.toml; instead of the options below")
    parser.add_argument("--comfyui", metavar="URL", help=f"default: {default.url}")
    parser.add_argument("--listen", metavar="ADDRESS:PORT", help="a port in front of ComfyUI, such as 127.0.0.1:8189: open that in the browser")
    parser.add_argument("--device", help="Ebb's card: its number in `ebb status`, UUID or PCI address (default: found by ComfyUI's process)")
    parser.add_argument("--max", type=int, metavar="MIB", help=f"the most that is lent (default: {default.max_mib})")
    parser.add_argument("--first-guess", type=int, metavar="MIB", help="what a workflow is lent that never ran before (default: --max)")
    parser.add_argument("--linger", type=float, metavar="S", help=f"give back after so long without a job (default: {default.linger_s:.0f})")
    parser.add_argument("--wait", type=int, metavar="S", help="let Ebb wait so long for room before a job goes on with less (default: 0)")
    parser.add_argument("--allow-network", action="store_true", help="--listen may be an address that other machines reach: ComfyUI has no login")
    parser.add_argument("--connect", default="", metavar="ENDPOINT", help="Ebb's endpoint (default: ipc://$XDG_RUNTIME_DIR/ebb/commands)")
    parser.add_argument("--keys", default="", metavar="FILE", help="file of keys for a tcp:// endpoint that wants them")
    parser.add_argument("--peaks-file", default="", metavar="FILE", help="what workflows took (default: $XDG_STATE_HOME/ebb/comfyui_peaks.json; off: not kept)")
    given = parser.parse_args()
    options = {"url": given.comfyui, "listen": given.listen, "device": given.device, "max_mib": given.max, "first_guess_mib": given.first_guess, "linger_s": given.linger,
               "wait_s": given.wait, "allow_network": given.allow_network or None}
    options = {name: value for name, value in options.items() if value is not None}
    if given.config is None:
        return settings.of_one(settings.Server(**options), given.connect, given.keys, given.peaks_file)
    if options or given.connect or given.keys or given.peaks_file:
        raise settings.Wrong("--config has everything in its file; leave the other options out")
    return settings.read(given.config)


def main():
    try:
        asyncio.run(Sidecar(parse(), say).run())
    except ValueError as why:
        say(str(why))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
