#!/usr/bin/python3
# tools/comfy_vram_handoff.py: runs one ComfyUI workflow in memory that Ebb lends for it (docs/COMFYUI.md).
import argparse
import asyncio
import contextlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    from ebb_sidecar import bus, handoff, outcome, report, settings
    from ebb_sidecar.progress import Progress
except ImportError as missing:
    sys.exit(f"comfy_vram_handoff: {missing}; on Debian: apt-get install python3-zmq python3-msgpack python3-aiohttp, and run it by /usr/bin/python3")

EXIT_CODES = """exit codes: 0 done, 1 the job failed, 2 wrong arguments or a card that cannot be told, 3 Ebb cannot lend that much, 4 ComfyUI does not take the
workflow, 5 no ComfyUI or the job was lost, 6 time-out, 7 no Ebb, 8 out of memory, 9 done but ComfyUI keeps memory, 130 interrupted"""


def whole(least, most):
    def parse(text):
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}")
        return number
    return parse


def seconds(text):
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return number


def parse():
    parser = argparse.ArgumentParser(prog="comfy_vram_handoff", epilog=EXIT_CODES, description="Borrows memory of a card from Ebb, runs a ComfyUI workflow in it, and gives it back. "
                                     "The names of the pictures go to stdout, everything else to stderr.")
    parser.add_argument("workflow", help="a workflow in API format (ComfyUI: Workflow > Export (API))")
    parser.add_argument("--need", type=whole(1, settings.MIB_MAX), required=True, metavar="MIB", help="how much the workflow takes beyond what ComfyUI holds when idle; the tool says what was taken")
    parser.add_argument("--device", default="auto", help="Ebb's card: its number in `ebb status`, UUID or PCI address (default: found by ComfyUI's process)")
    parser.add_argument("--at-least", type=whole(1, settings.MIB_MAX), metavar="MIB", help="go on with a smaller grant of at least this")
    parser.add_argument("--wait", type=whole(0, settings.WAIT_MAX_S), default=0, metavar="S", help="wait so long for room on the card, before less is taken (default: 0)")
    parser.add_argument("--comfyui", default="http://127.0.0.1:8188", metavar="URL", help="default: %(default)s")
    parser.add_argument("--connect", metavar="ENDPOINT", help="Ebb's endpoint (default: ipc://$XDG_RUNTIME_DIR/ebb/commands)")
    parser.add_argument("--keys", metavar="FILE", help="file of keys for a tcp:// endpoint that wants them")
    parser.add_argument("--timeout", type=seconds, default=3600, metavar="S", help="the job is cancelled then (default: 3600)")
    parser.add_argument("--cancel-timeout", type=seconds, default=120, metavar="S", help="how long a cancelled job may take to end (default: 120)")
    parser.add_argument("--free-timeout", type=seconds, default=60, metavar="S", help="how long ComfyUI may take to let go (default: 60)")
    parser.add_argument("--busy-timeout", type=seconds, default=600, metavar="S", help="how long others' jobs are waited for before that (default: 600)")
    parser.add_argument("--allow-partial", action="store_true", help="run a workflow of which ComfyUI leaves out a part")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the pictures' names")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    arguments = parser.parse_args()
    if arguments.at_least and arguments.at_least > arguments.need:
        parser.error(f"--at-least {arguments.at_least} is more than --need {arguments.need}")
    if not settings.is_address(arguments.comfyui):
        parser.error(f"--comfyui {arguments.comfyui!r} is no address such as http://127.0.0.1:8188")
    return arguments


def say(text):
    with contextlib.suppress(OSError):  # a terminal that was closed; what is lent is given back all the same
        print("comfy_vram_handoff: " + text, file=sys.stderr, flush=True)


def show(came, given):
    if given.json:
        print(json.dumps(asdict(came)))
    else:
        for name in came.pictures:
            print(name)
    if not given.quiet and came.seconds:
        print("- " + ", ".join(f"{what} {time:.2f} s" for what, time in came.seconds.items()) + f"; taken {came.taken_mib:.0f} of {came.lease_mib} MiB", file=sys.stderr)
    sys.stdout.flush()


def main():
    given = parse()
    options = report.Options(given.workflow, given.need, given.device, given.comfyui, given.at_least, given.wait, given.timeout, given.cancel_timeout,
                              given.free_timeout, given.busy_timeout, given.allow_partial)

    async def run():
        return await handoff.Handoff(options, bus.Ebb(given.connect, bus.read_keys(given.keys) if given.keys else None), say, Progress(given.quiet)).run()

    try:
        came = asyncio.run(run())
    except outcome.Failure as why:
        came = report.Report(exit=why.code, text=why.text())
    except ValueError as why:
        came = report.Report(exit=outcome.Exit.BAD_INPUT, text=str(why))
    if came.text:
        say(came.text)
    try:
        show(came, given)
    except OSError as why:  # the terminal was closed, or nobody reads
        say(f"what came of it cannot be printed: {why.strerror}")
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        return int(came.exit) or int(outcome.Exit.JOB_FAILED)
    return int(came.exit)


if __name__ == "__main__":
    sys.exit(main())
