#!/usr/bin/env python3
# tests/gpu/image_job.py: a stand-in for an image generator beside an answer:   tests/gpu/image_job.py FOLDER [--mib 15240]
#
# FOLDER has ebb and ebbd. Once with one card and once with two cards on the one GPU, the rest of which is filled: an answer streams, `ebb lease`
# runs a job that takes 15,240 MiB, computes in them, compares and frees them, and the caches grow back. Every answer must have the hash of the
# undisturbed one. Needs a Python with torch. EBB_TEST_MODEL: the model, by default the demo's, of whose small cache the job gets half.
# EBB_REHEARSE_ON_HOST=1: host cards and no torch; what is printed then says nothing about any GPU.
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REHEARSES = "EBB_REHEARSE_ON_HOST" in os.environ
CONTEXT_MIB = 700  # 305 to 613 were seen
ROOM_MIB = 64
PIECE_MIB = 256
PATIENCE_S = 60


# --- the job, and what fills the rest of the GPU: processes of their own

def tell(what, **more):
    print(json.dumps(dict(what=what, at=time.monotonic(), **more)), flush=True)


def be_job(mib):
    tell("started")
    if REHEARSES:
        piece = bytearray(b"\x5a") * (mib << 20)
        tell("allocated")
        assert piece.count(b"\x5a") == mib << 20
        tell("computed")
        return 0
    import torch
    tell("torch is loaded")
    torch.cuda.init()
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False  # partial sums in half would not be exact
    torch.zeros(1, device="cuda")
    tell("has a context")
    n_pieces, rows = mib // PIECE_MIB, 64
    # Each piece is a matrix [16384, 8192] of halves with one value: the sum of a column of 8192 of them is exact.
    pieces = [torch.full((16384, 8192), (1 + k % 4) * 2.0 ** -13, dtype=torch.float16, device="cuda") for k in range(n_pieces)]
    rest = torch.full(((mib % PIECE_MIB) << 20,), 7, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    tell("allocated", reserved_mib=torch.cuda.memory_reserved() >> 20)
    ones = torch.ones((rows, 8192), dtype=torch.float16, device="cuda")
    until, passes = time.monotonic() + 2.0, 0
    while time.monotonic() < until:
        for k, piece in enumerate(pieces):
            if not bool((ones @ piece.t() == 1 + k % 4).all()):
                print("image_job: piece %d of its memory holds what it did not compute" % k, file=sys.stderr)
                return 4
        passes += 1
    assert bool((rest == 7).all())
    tell("computed", passes=passes)
    del pieces, rest, ones, piece
    torch.cuda.empty_cache()
    tell("freed")
    return 0


def be_ballast(leave_mib):
    import torch
    torch.zeros(1, device="cuda")
    free, _ = torch.cuda.mem_get_info()
    held = torch.empty(max(0, free - (leave_mib << 20)), dtype=torch.uint8, device="cuda")
    tell("holds", mib=held.numel() >> 20)
    sys.stdin.read()
    return 0


# --- the daemon and its answers

class Ebbd:
    def __init__(self, folder, cards):
        self.folder = folder
        self.work = tempfile.TemporaryDirectory(prefix="ebb-image-job-")
        self.endpoint = "ipc://%s/commands" % self.work.name
        model = os.environ.get("EBB_TEST_MODEL") or os.path.join(HERE, "../../model/demo/chapbook-q4_k_m.gguf")
        self.log = open(os.path.join(self.work.name, "log"), "w+")
        settings = ["cards=" + ",".join(cards), "bus.listen=" + self.endpoint, "bus.events=", "state_dir=" + os.path.join(self.work.name, "state"), "profile=off"]
        if "EBB_TEST_MODEL" not in os.environ:
            settings.append("vram_segment_mib=1")
        command = [os.path.join(folder, "ebbd"), model]
        for each in settings:
            command += ["--set", each]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("EBB_")}
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environment)
        wait_until(lambda: "ebbd ready" in self.said() or self.process.poll() is not None, "the daemon is ready", 120)
        if self.process.poll() is not None:
            sys.exit("image_job: ebbd ended: " + self.said())

    def said(self):
        with open(self.log.name) as file:
            return file.read()

    def ask(self, *words):
        done = subprocess.run([os.path.join(self.folder, "ebb"), *words, "--connect", self.endpoint, "--json"], stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout.decode())

    def cards(self):
        return self.ask("status")["cards"]

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.work.cleanup()


def wait_until(true, what, patience_s=PATIENCE_S):
    until = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > until:
            sys.exit("image_job: %s: not within %d s" % (what, patience_s))
        time.sleep(0.02)


class Talk:
    """Answers to one question, one after the other, each token with its time."""

    def __init__(self, daemon, n_tokens):
        self.command = [os.path.join(daemon.folder, "ebb"), "generate", "--connect", daemon.endpoint, "-p", "In the beginning", "-n", str(n_tokens), "--temperature", "0",
                        "--ignore-eos", "--hash", "--json"]
        self.times, self.hashes, self.breaks, self.ends = [], [], set(), False
        self.thread = threading.Thread(target=self.go_on)

    def answer(self):
        process = subprocess.Popen(self.command, stdout=subprocess.PIPE)
        self.breaks.add(len(self.times))  # the gap before it is the start of a process
        for line in process.stdout:
            reply = json.loads(line.decode())
            if reply["type"] == "token":
                self.times.append(time.monotonic())
            elif reply["type"] == "done":
                self.hashes.append(reply["hash"])
                return reply
        sys.exit("image_job: ebb generate ended with %d" % process.wait())

    def go_on(self):
        while not self.ends:
            self.answer()

    def tokens(self, count):
        goal = len(self.times) + count
        wait_until(lambda: len(self.times) >= goal or not self.thread.is_alive(), "%d more tokens" % count)

    def figures(self, began, ended):
        times = list(self.times)
        inside = [i for i, at in enumerate(times) if began <= at <= ended]
        gaps = [times[i] - times[i - 1] for i in inside if i > 0 and i not in self.breaks]
        gaps.append(0.0)
        return max(gaps) * 1000, len(inside) / max(ended - began, 1e-9)


# --- a run

def lease_command(daemon, devices, lease_mib, mib):
    """Of cards that share a GPU all but the last give what they have; the last is asked that so much is free on the GPU."""
    command = []
    for device in devices:
        command += [os.path.join(daemon.folder, "ebb"), "lease", str(lease_mib), "--device", str(device), "--connect", daemon.endpoint]
        if device != devices[-1]:
            command += ["--min", "1"]
        command.append("--")
    return command + [sys.executable, os.path.abspath(__file__), "job", str(mib)]


def run(folder, cards, wanted_mib):
    print("--- %s" % ", ".join(cards), flush=True)
    daemon = Ebbd(folder, cards)
    ballast = None
    try:
        full = daemon.cards()
        cache_mib = sum(card["expert_cache_mib"] for card in full)
        reserve_mib = max(card["reserve_mib"] for card in full)
        is_large = cache_mib >= wanted_mib + CONTEXT_MIB + ROOM_MIB
        mib = wanted_mib if is_large else max(1, int(cache_mib / 2 / (len(cards) if REHEARSES else 1)))
        lease_mib = mib if REHEARSES else mib + CONTEXT_MIB
        if is_large and not REHEARSES:
            ballast = subprocess.Popen([sys.executable, os.path.abspath(__file__), "ballast", str(int(reserve_mib) + ROOM_MIB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            print("ballast: %d MiB" % json.loads(ballast.stdout.readline().decode())["mib"])
            full = daemon.cards()
        print("caches %s MiB, %.0f MiB free; a lease of %d MiB for a job of %d MiB" % (
            " + ".join("%.0f" % card["expert_cache_mib"] for card in full), full[0]["vram_free_mib"], lease_mib, mib), flush=True)
        return measure(daemon, full, lease_mib, mib, is_large)
    finally:
        if ballast is not None:
            ballast.stdin.close()
            ballast.wait()
        daemon.stop()


def measure(daemon, full, lease_mib, mib, is_large):
    first = Talk(daemon, 64)
    speed = first.answer()["tokens_per_s"]
    n_tokens = max(64, min(1500, int(speed * 8)))  # an answer of some 8 s, within the context
    alone = Talk(daemon, n_tokens)
    alone.answer()
    print("undisturbed: %d tokens, %.1f tokens/s" % (n_tokens, speed))

    talk = Talk(daemon, n_tokens)
    talk.thread.start()
    marks = [("before", time.monotonic())]
    talk.tokens(40)
    marks.append(("the lease is given", time.monotonic()))
    job = subprocess.Popen(lease_command(daemon, [card["device"] for card in full], lease_mib, mib), stdout=subprocess.PIPE)
    names = {"started": "its program starts", "torch is loaded": "it takes a context", "has a context": "it takes its memory", "allocated": "it computes and compares",
             "computed": "it frees its memory", "freed": "it ends"}
    lowest = None
    for line in job.stdout:
        event = json.loads(line.decode())
        marks.append((names[event["what"]], event["at"]))
        if event["what"] == "allocated":
            lowest = daemon.cards()
    code = job.wait()
    marks.append(("the lease ends and the caches are whole again", time.monotonic()))

    def is_whole():
        return [card["expert_cache_mib"] for card in daemon.cards()] == [card["expert_cache_mib"] for card in full]

    wait_until(is_whole, "the caches are whole again")
    marks.append(("after", time.monotonic()))
    talk.tokens(40)
    marks.append(("", time.monotonic()))
    talk.ends = True
    talk.thread.join()

    for (what, began), (_, ended) in zip(marks, marks[1:]):
        gap_ms, tokens_per_s = talk.figures(began, ended)
        print("%-46s %10.1f ms   largest gap of two tokens %.1f ms, %.1f tokens/s" % (what, (ended - began) * 1000, gap_ms, tokens_per_s))
    if lowest is not None:
        print("caches beside it %s MiB, %.0f MiB free" % (" + ".join("%.0f" % card["expert_cache_mib"] for card in lowest), lowest[0]["vram_free_mib"]))
    same = set(talk.hashes) == set(alone.hashes)
    gave = lowest is not None and sum(card["expert_cache_mib"] for card in lowest) < sum(card["expert_cache_mib"] for card in full)
    if REHEARSES or is_large:
        print("goal: %-6s the caches gave memory to the job" % ("met" if gave else "MISSED"))
    print("goal: %-6s an image job of %d MiB beside it: it computed what it should, and the hash of %d answers is the undisturbed one's" % (
        "met" if same and code == 0 else "MISSED", mib, len(talk.hashes)), flush=True)
    return same and code == 0 and (gave or not (REHEARSES or is_large))


def main(words):
    if len(words) == 2 and words[0] == "job":
        return be_job(int(words[1]))
    if len(words) == 2 and words[0] == "ballast":
        return be_ballast(int(words[1]))
    if len(words) not in (1, 3) or (len(words) == 3 and (words[1] != "--mib" or not words[2].isdigit())):
        print("usage: tests/gpu/image_job.py FOLDER [--mib MIB]", file=sys.stderr)
        return 2
    folder, mib = os.path.abspath(words[0]), int(words[2]) if len(words) == 3 else 15240
    for each in ("ebb", "ebbd"):
        if not os.path.exists(os.path.join(folder, each)):
            print("image_job: %s has no %s" % (folder, each), file=sys.stderr)
            return 2
    card = "host" if REHEARSES else "cuda:0"
    results = [run(folder, [card] * n_cards, mib) for n_cards in (1, 2)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
