"""A worker without torch that misbehaves as its switches say; it speaks the wire as the true one does."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

READY: dict[str, Any] = {
    "torch": "2.9.0",
    "python": "3.11.7",
    "cuda": {"available": False, "devices": [], "free_bytes": None},
    "sim": {"works": None, "why": ""},
    "sandbox": {"landlock": True},
}


def say(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


_ON_HOST: dict[str, Any] = {
    "device": "cpu",
    "peak_bytes": 8,
    "by_phase": {},
    "by_line": [],
    "over_time": [],
    "steps": [],
}


def answered(run: str | None, result: object) -> None:
    say({"type": "result", "run": run, "answer": json.dumps(result)})


def switches() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hang", action="store_true", help="never answer a run")
    parser.add_argument("--ignore-cancel", action="store_true", help="never answer a cancelled run either")
    parser.add_argument("--ignore-sigterm", action="store_true")
    parser.add_argument("--die-after", type=int, metavar="N", help="be killed in the midst of run N")
    parser.add_argument("--garbage", type=int, default=0, metavar="N", help="write N lines that are no messages")
    parser.add_argument("--flood", action="store_true", help="write one endless line")
    parser.add_argument("--slow-start", type=float, default=0, metavar="S")
    parser.add_argument("--exit-on-import", action="store_true")
    parser.add_argument("--exit-first", type=int, default=0, metavar="N", help="fail to start N times")
    parser.add_argument("--counter", type=Path, help="a file that counts the starts")
    parser.add_argument("--unusable", metavar="WHY")
    parser.add_argument("--once", action="store_true", help="serve one run and end")
    parser.add_argument("--chatter", type=int, default=0, metavar="BYTES", help="write so much to stderr at the start")
    parser.add_argument("--strange-result", action="store_true")
    parser.add_argument("--on-host", action="store_true")
    parser.add_argument("--grandchild", type=Path, metavar="FILE", help="leave a process behind, its id in the file")
    parser.add_argument("--sim-broken", action="store_true")
    parser.add_argument("--gpu-refuses", action="store_true", help="have a GPU that no run can use")
    return parser.parse_args()


def start(options: argparse.Namespace) -> int:
    """Start as the switches say; return how often one has been started by now."""
    starts = 1
    if options.counter:
        starts += int(options.counter.read_text() or 0) if options.counter.exists() else 0
        options.counter.write_text(str(starts))
    if options.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.exit_on_import or starts <= options.exit_first:
        sys.exit("ImportError: libcudart.so.12: cannot open shared object file")
    os.write(2, b"x" * options.chatter)
    time.sleep(options.slow_start)
    if options.grandchild and os.fork() == 0:
        written = options.grandchild.with_suffix(".new")
        written.write_text(str(os.getpid()))
        written.replace(options.grandchild)
        time.sleep(60)
        os._exit(0)
    if options.unusable:
        say({"type": "unusable", "why": options.unusable})
        sys.exit(3)
    while options.flood:
        os.write(1, b"y" * 65536)
    for _ in range(options.garbage):
        os.write(1, b"Downloading: 42%\n")
    sim = {"sim": {"works": False, "why": "built without it"}} if options.sim_broken else {}
    gpu = {"cuda": {"available": True, "devices": ["GPU"], "free_bytes": [8 << 30]}} if options.gpu_refuses else {}
    say({**READY, **sim, **gpu, "type": "ready", "pid": os.getpid()})
    return starts


def requests() -> Iterator[dict[str, Any]]:
    for line in sys.stdin.buffer:
        yield json.loads(line)


def serve(options: argparse.Namespace, starts: int) -> None:
    served = 0
    for request in requests():
        kind, run = request["type"], request.get("run")
        if kind == "exit":
            return
        if kind == "cancel" and not options.ignore_cancel:
            answered(run, {"outcome": "cancelled"})
        if kind != "run":
            continue
        served += 1
        say({"type": "phase", "run": run, "phase": "target"})
        if served == options.die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        plan = request["plan"]
        if not options.hang and not plan.get("hang") and starts not in plan.get("hang_in", ()):
            if "raw" in plan:
                say({"type": "result", "run": run, "answer": plan["raw"]})
                continue
            answer = {"outcome": "passed", "device": plan.get("device", "cpu"), **plan.get("answer", {})}
            if options.on_host:
                answer["memory"] = _ON_HOST
            if options.gpu_refuses and answer["device"] == "cuda":
                why = "GPU 0 has only 96 MiB free"
                answer.update(outcome="unsupported", notes=[why], reason=why)
            answered(run, 7 if options.strange_result else answer)
        if options.once:
            return


if __name__ == "__main__":
    chosen = switches()
    serve(chosen, start(chosen))
