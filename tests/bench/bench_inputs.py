"""How many functions of a package get inputs without anybody saying a word, from which source, and which do not.

    python tests/bench/bench_inputs.py PACKAGE_FOLDER [--files 20] [--failures] [--only PATH::NAME] [--python P]

Takes the files of the package that define the most modules; runs each module's ``forward`` and each function at top
level that reads torch, through the real worker, and counts those that ran to their end.
"""

from __future__ import annotations

import argparse
import ast
import collections
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "support")]

from worker_client import WorkerClient  # noqa: E402

from drygrad.dryrun.plan import Missing, RunOptions  # noqa: E402
from drygrad.dryrun.planning import plan_runs  # noqa: E402
from drygrad.dryrun.result import Result  # noqa: E402
from drygrad.dryrun.targets import Target, targets  # noqa: E402
from drygrad.static.source import Source  # noqa: E402

CAUSE = 110


def files(package: Path, count: int) -> list[Path]:
    """Return the files with the most ``forward`` methods."""
    texts = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    having = [path for path, text in texts.items() if "torch" in text and "def forward(" in text]
    return sorted(having, key=lambda path: (-texts[path].count("def forward("), path))[:count]


def chosen(source: Source) -> Iterator[Target]:
    """Yield the targets worth counting: ``forward`` methods, and functions that call something."""
    for target in targets(source):
        if target.function is not None and (
            target.function.name == "forward" or (target.kind == "function" and _calls(target.function))
        ):
            yield target


def _calls(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(function))


def tried(worker: WorkerClient, path: Path, source: Source, target: Target, root: Path) -> tuple[str, str]:
    """Run one target; return whether it ran or what kept it from it, and the source or the cause."""
    options = RunOptions(device="cpu", root=root, timeout=15.0)
    plans = plan_runs(source, path, target, options)
    if isinstance(plans, Missing):
        return "no proposal", plans.message
    result = Result.read(worker.run(plans[0].as_json()))
    search = result.data.get("search")
    if result.outcome == "passed":
        sources = {given.source.partition(":")[0] for given in result.inputs}
        return "ran", "search" if search and "search" in "".join(sources) else "+".join(
            sorted(sources)
        ) or "none needed"
    cause = str(search["why"]) if search and search.get("why") else ""
    if not cause:
        cause = f"{result.error.type}: {result.error.message}" if result.error else "; ".join(result.notes)
    at = result.error.at.line if result.error and result.error.at else 0
    return result.outcome, f"{' '.join(cause.split())[:CAUSE]} (line {at})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--failures", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has what the package imports")
    arguments = parser.parse_args()
    package: Path = arguments.package.resolve()
    outcomes: collections.Counter[str] = collections.Counter()
    sources: collections.Counter[str] = collections.Counter()
    begun, longest = time.monotonic(), 0.0
    with WorkerClient(python=arguments.python) as worker:
        worker.receive("ready")
        for path in files(package, arguments.files):
            source = Source(path.read_text(encoding="utf-8"))
            for target in chosen(source):
                name = f"{path.relative_to(package)}::{target.qualname}"
                if arguments.only not in name:
                    continue
                start = time.monotonic()
                outcome, why = tried(worker, path, source, target, package.parent)
                longest = max(longest, time.monotonic() - start)
                outcomes[outcome] += 1
                if outcome == "ran":
                    sources[why] += 1
                elif arguments.failures:
                    sys.stdout.write(f"{outcome:12} {name}: {why}\n")
                    sys.stdout.flush()
    total = sum(outcomes.values())
    share = 100 * outcomes["ran"] / max(total, 1)
    sys.stdout.write(f"{package.name}: {outcomes['ran']} of {total} ran to their end ({share:.0f} %)\n")
    sys.stdout.write(f"  outcomes {dict(outcomes)}\n  sources  {dict(sources.most_common())}\n")
    sys.stdout.write(f"  {time.monotonic() - begun:.0f} s, the longest {longest:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
