"""One process, one run: for systems without fork. The supervisor keeps a spare one warm."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import Any

from drygrad.worker import capture, child, devices, outcomes, requests
from drygrad.worker.wire import Channel, untagged


class _Upward(Channel):
    """Turns what a run says into what the supervisor reads."""

    def __init__(self, up: Channel, run: str, output_fd: int) -> None:
        super().__init__(up.read_fd, up.write_fd)
        self._up = up
        self._run = run
        self._output_fd = output_fd

    def send_line(self, line: bytes) -> None:
        """Pass on a phase, or an answer with what was printed; partial answers stay here."""
        kind, text = untagged(line.rstrip(b"\n"))
        if kind == "phase":
            self._up.send({"type": "phase", "run": self._run, "phase": text})
        elif kind == "interim":
            self._up.send({"type": "interim", "run": self._run, "answer": text})
        elif kind == "result":
            output = capture.read_file(self._output_fd)
            self._up.send({"type": "result", "run": self._run, "answer": text, "output": output})


def serve(channel: Channel) -> int:
    """Wait for a run, serve it, and end; a cancel or the end of the input ends it at once."""
    message = _first_run(channel)
    if message is None:
        return 0
    plan: Any = message.get("plan")
    run = str(message.get("run"))
    wrong = requests.problem(plan)
    if wrong is not None:
        channel.send(outcomes.message(run, outcomes.told({}, "error", wrong)))
        return 0
    why = devices.prepare(str(plan.get("device") or "cpu"), plan)
    if why is not None:
        channel.send(outcomes.message(run, outcomes.told(plan, "unsupported", why)))
        return 0
    threading.Thread(target=_obey, args=(channel, run, plan), name="drygrad", daemon=True).start()
    with tempfile.TemporaryFile() as output:
        fd = os.dup(output.fileno())
        child.take_output(os.dup(fd))
        child.serve(plan, _Upward(channel, run, fd), None)
    os._exit(0)


def _first_run(channel: Channel) -> dict[str, Any] | None:
    while not channel.closed:
        for message in channel.receive():
            if message.get("type") == "run":
                return message
            if message.get("type") == "exit":
                return None
    return None


def _obey(channel: Channel, run: str, plan: dict[str, Any]) -> None:
    """End the process when the run is cancelled or nobody is left to hear of it."""
    while not channel.closed:
        for message in channel.receive():
            if message.get("type") in ("cancel", "exit"):
                channel.send(outcomes.message(run, outcomes.told(plan, "cancelled")))
                os._exit(0)
    os._exit(0)
