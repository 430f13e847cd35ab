"""A forecast's memory from the first allocation to the last, drawn as SVG: by kind, with the limit of the GPU.

The picture is one text that needs nothing else: it follows a page's or an editor's dark colours, and can stand in HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import ceil, floor, log10
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from drygrad.dryrun.short_forecast import room_on, size

Told = Mapping[str, Any]
WIDTH, HEIGHT = 960, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 20, 84, 64
_BAND = 8
"""The strip below the axis that tells the phases apart."""
_TICKS = 5
_HEADROOM = 1.15
"""Above what is highest, so that labels have room."""
_NEAR = 1.6
"""A limit further above the peak than that is told in words: drawn, it would leave the curve no room."""
_KINDS = ("parameters", "buffers", "states", "gradients", "inputs", "activations", "temporaries", "workspaces")
"""What lies lowest stays longest."""
_PHASES = ("forward", "backward", "recompute", "optimizer")
LIGHT = {
    **{"page": "#ffffff", "ink": "#1f2328", "faint": "#59636e", "grid": "#d8dee4", "limit": "#c62828"},
    **dict(zip(_KINDS, "#3b6fb6 #7fa6d6 #8e6bbf #d9822b #9aa5b1 #3f9c6d #c9b037 #b58a9f".split(), strict=True)),
    **dict(zip(_PHASES, "#8ab4e8 #e8a68a #b9a3d9 #9ccfb0".split(), strict=True)),
}
"""Colours by what they are for."""
_DARK = {
    **{"page": "#1b1f24", "ink": "#e6edf3", "faint": "#9aa5b1", "grid": "#3a424b", "limit": "#ff7b72"},
    **dict(zip(_KINDS, "#5b8dd6 #a3c4ee #a88bd8 #e39a52 #7d8894 #56b886 #d6c25a #c9a2b5".split(), strict=True)),
    **dict(zip(_PHASES, "#4a6f9c #9c5f45 #6f5a94 #4c8364".split(), strict=True)),
}


def memory_plot(told: Told, title: str, gpu: str | None = None) -> str:
    """Return the picture of a forecast (``forecast`` of its JSON) of a target, and of the GPU that it is for."""
    return "\n".join(_Plot(told, title, gpu).parts()) + "\n"


class _Room(NamedTuple):
    """The line that reserved memory must stay below."""

    bytes: int
    label: str
    drawn: bool


class _Plot:
    def __init__(self, told: Told, title: str, gpu: str | None) -> None:
        self._told, self._title = told, title
        self._samples: Sequence[Told] = told["over_time"]
        self._room = _room(told, gpu)
        limit = self._room.bytes if self._room and self._room.drawn else 0
        highest = max(int(told["peak_reserved"]), limit)
        self._ticks = _ticks(max(highest, 1))
        self._top = max(self._ticks[-1], _HEADROOM * highest)
        self._first = min((sample["at"] for sample in self._samples), default=0)
        self._last = max((sample["at"] for sample in self._samples), default=1)

    def parts(self) -> Iterator[str]:
        """Yield the elements."""
        box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        said = f"Memory over time: {self._title}"
        yield f'<svg xmlns="http://www.w3.org/2000/svg" class="drygrad-memory" role="img" {box}>'
        yield f"<title>{escape(said)}</title>"
        yield f"<style>{_style()}</style>"
        yield f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>'
        yield from self._head()
        yield from self._axes()
        yield from self._areas()
        yield from self._reserved()
        yield from self._phases()
        yield from self._steps()
        yield from self._limit()
        yield from self._peak()
        yield from self._refused()
        yield "</svg>"

    def _x(self, at: int) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (at - self._first) / max(1, self._last - self._first)

    def _y(self, count: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * count / self._top

    def _kinds(self) -> list[str]:
        """Return the kinds that there are, the lowest first; unknown ones on top."""
        found = {kind for sample in self._samples for kind in sample["kinds"]}
        return [*(kind for kind in _KINDS if kind in found), *sorted(found - {*_KINDS})]

    def _head(self) -> Iterator[str]:
        yield _text(_LEFT, 26, self._title, "title")
        told = self._told
        peaks = f"peak {size(told['peak_allocated'])} allocated, {size(told['peak_reserved'])} reserved"
        yield _text(_LEFT, 46, f"{peaks}{f'; {self._room.label}' if self._room else ''}", "faint")
        x = _LEFT
        for kind in self._kinds():
            yield f'<rect class="{_css(kind)}" x="{x}" y="60" width="11" height="11" rx="2"/>'
            yield _text(x + 16, 70, kind)
            x += 32 + int(6.4 * len(kind))
        yield f'<path class="reserved" d="M{x} 65.5h18"/>{_text(x + 23, 70, "reserved")}'

    def _axes(self) -> Iterator[str]:
        for tick in self._ticks:
            y = self._y(tick)
            yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>'
            yield _text(_LEFT - 8, y + 4, _short(tick), "faint", "end")
        yield _text(WIDTH - _RIGHT, HEIGHT - 12, "allocations, releases and operations, in order", "faint", "end")
        for at in _ticks(max(1, self._last), binary=False):
            if self._first <= at <= self._last:
                yield _text(self._x(at), HEIGHT - _BOTTOM + _BAND + 18, f"{at:,}", "faint", "middle")

    def _areas(self) -> Iterator[str]:
        """Yield one area upon the other; all of them are what is allocated."""
        below = [0] * len(self._samples)
        for kind in self._kinds():
            above = [low + sample["kinds"].get(kind, 0) for low, sample in zip(below, self._samples, strict=True)]
            edge = [*self._points(above), *reversed([*self._points(below)])]
            yield f'<path class="{_css(kind)}" d="M{"L".join(edge)}Z"><title>{escape(kind)}</title></path>'
            below = above

    def _points(self, counts: Sequence[int]) -> Iterator[str]:
        for sample, count in zip(self._samples, counts, strict=True):
            yield f"{self._x(sample['at']):.1f} {self._y(count):.1f}"

    def _reserved(self) -> Iterator[str]:
        if self._samples:
            line = "L".join(self._points([sample["reserved"] for sample in self._samples]))
            yield f'<path class="reserved" d="M{line}"><title>reserved by the allocator</title></path>'

    def _phases(self) -> Iterator[str]:
        """Yield the strip below the axis, and which phase is which."""
        y = HEIGHT - _BOTTOM
        runs = [(phase, [*each]) for phase, each in groupby(self._samples, lambda sample: str(sample["phase"]))]
        begins = [self._x(each[0]["at"]) for _, each in runs]
        ends = [*begins[1:], WIDTH - _RIGHT][: len(runs)]
        for (phase, _), left, right in zip(runs, begins, ends, strict=True):
            area = f'x="{left:.1f}" y="{y}" width="{max(right - left, 0.5):.1f}" height="{_BAND}"'
            yield f'<rect class="{_css(phase)}" {area}><title>{escape(phase)}</title></rect>'
        yield from self._phase_names([phase for phase, _ in runs])

    def _phase_names(self, found: Sequence[str]) -> Iterator[str]:
        x = _LEFT
        for phase in dict.fromkeys(found):
            y = HEIGHT - 21
            yield f'<rect class="{_css(phase)}" x="{x}" y="{y}" width="11" height="{_BAND}"/>'
            yield _text(x + 16, HEIGHT - 12, phase, "faint")
            x += 32 + int(6.4 * len(phase))

    def _steps(self) -> Iterator[str]:
        """Yield a line at the end of each step of an optimizer."""
        ends = [mark["at"] for mark in self._told["marks"] if mark["name"] == "step-end"]
        least = 0.0
        for number, at in enumerate(ends, 1):
            x = min(self._x(at), WIDTH - _RIGHT)
            yield f'<path class="step" d="M{x:.1f} {_TOP}V{HEIGHT - _BOTTOM}"/>'
            if x - least > 48:
                yield _text(x - 4, _TOP + 10, f"step {number}", "faint", "end")
                least = x

    def _limit(self) -> Iterator[str]:
        if self._room and self._room.drawn:
            y = self._y(self._room.bytes)
            yield f'<path class="limit" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>'
            yield _text(_LEFT + 6, y - 5, self._room.label, "over")

    def _peak(self) -> Iterator[str]:
        told, at = self._told, self._told["peak_at"]
        if at is None:
            return
        x, y = self._x(at), self._y(told["peak_allocated"])
        peak = told["peak"]
        line = f", line {peak['line']}" if peak and peak["line"] else ""
        operation = f" ({str(peak['operation']).rpartition('::')[2]})" if peak and peak["operation"] else ""
        label = f"peak {size(told['peak_allocated'])}{line}{operation}"
        yield f'<circle class="peak" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
        above = self._y(told["peak_reserved"]) - 8
        yield _text(x, above, label, "mark", "end" if x > WIDTH / 2 else "start")

    def _refused(self) -> Iterator[str]:
        """Yield a cross where the first allocation is that does not fit."""
        refused = self._told["refused"]
        if refused is not None:
            x, y = self._x(refused["at"]), self._y(refused["allocated"] + refused["bytes"])
            said = f"{size(refused['bytes'])} more do not fit"
            yield f'<path class="refused" d="M{x - 4:.1f} {y - 4:.1f}l8 8m0-8l-8 8"><title>{said}</title></path>'


def _room(told: Told, gpu: str | None) -> _Room | None:
    """Return how much torch's allocator can have of the GPU; None where no GPU was named."""
    memory = told["memory"]
    if memory is None:
        return None
    room = room_on(memory, told)
    label = f"room on {gpu or size(memory)}: {size(room)}"
    return _Room(room, label, room <= _NEAR * max(told["peak_reserved"], 1))


def _ticks(most: int, *, binary: bool = True) -> list[int]:
    """Return round numbers from 0 to the first that is no less; of bytes, round in their unit."""
    unit = 1024 ** max(0, floor(log10(most) / log10(1024))) if binary else 1
    rough = most / unit / _TICKS
    power = 10 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    step = max(step * unit, 1)
    return [round(number * step) for number in range(ceil(most / step) + 1)]


def _short(count: int) -> str:
    """Write a tick of the axis, which is round in its unit."""
    for unit, bytes_of in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= bytes_of:
            return f"{round(count / bytes_of, 2):g} {unit}"
    return f"{count} B" if count else "0"


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "") -> str:
    styled = f' class="{style}"' if style else ""
    anchored = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{styled}{anchored}>{escape(text)}</text>'


def _css(word: str) -> str:
    return word if word in LIGHT else "unknown"


def _style() -> str:
    """Return the colours, light ones and those for dark pages, and what they are for."""
    root = ".drygrad-memory"

    def colours(table: Mapping[str, str]) -> str:
        return ";".join(f"--{name}:{value}" for name, value in table.items())

    kinds = "".join(f"{root} .{name}{{fill:var(--{name})}}" for name in (*_KINDS, *_PHASES))
    return (
        f"{root}{{{colours(LIGHT)}}}@media (prefers-color-scheme:dark){{{root}{{{colours(_DARK)}}}}}"
        f"{root} text{{font:12px system-ui,sans-serif;fill:var(--ink)}}{root} .title{{font-size:15px;font-weight:600}}"
        f"{root} .faint{{fill:var(--faint)}}{root} .page{{fill:var(--page)}}{root} .unknown{{fill:var(--faint)}}"
        f"{root} .grid{{stroke:var(--grid);stroke-width:1}}"
        f"{root} .reserved{{stroke:var(--ink);stroke-width:1.2;fill:none}}"
        f"{root} .step{{stroke:var(--faint);stroke-dasharray:2 4;fill:none}}"
        f"{root} .limit{{stroke:var(--limit);stroke-width:1.5;stroke-dasharray:7 4}}{root} .over{{fill:var(--limit)}}"
        f"{root} .refused{{stroke:var(--limit);stroke-width:2.5;fill:none}}"
        f"{root} .peak{{fill:var(--ink);stroke:var(--page);stroke-width:1.5}}"
        f"{root} .mark{{font-weight:600;paint-order:stroke;stroke:var(--page);stroke-width:3}}{kinds}"
    )
