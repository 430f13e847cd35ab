"""What the surroundings of a run lack: network, variables, packages: no fault of the program's."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType

from drygrad.worker.absent_imports import is_there
from drygrad.worker.modules import third_party_folders

_MOST = 50
_IMPORTLIB = "<frozen importlib"
_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_REFUSED = re.compile(r"drygrad: (a dry run does not [^\n]*?)['\">]*$", re.MULTILINE)
_NO_NETWORK = re.compile(
    r"OfflineModeIsEnabled|HF_HUB_OFFLINE|offline mode is enabled|outgoing traffic has been disabled|download=True"
    r"|[Nn]ame resolution|Name or service not known|Network is unreachable|[Cc]ould not resolve host|\bdns error\b"
)
"""What libraries say because a run has no network, and tells them so."""
_ASKING = "EOF when reading a line"
_RANKS = re.compile(r"\b(?:world[ _]size|ranks?)\b")
_TO_INSTALL = re.compile(r"\b(?:pip3?|conda|mamba|apt|apt-get|brew|uv|poetry) (?:pip )?(?:install|add)\b")
_ABSENT = re.compile(r"No module named '?([\w.]+)")
_DISTRIBUTIONS = {
    "Bio": "biopython",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "git": "gitpython",
    "hydra": "hydra-core",
    "mpl_toolkits": "matplotlib",
    "pkg_resources": "setuptools",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
    "yaml": "pyyaml",
}
"""What to install for modules that are called otherwise than their package."""


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, what it was raised from, what was handled when it was raised, and what it carries: each once."""
    waiting = [error]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST:
        error = waiting.pop(0)
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        yield error
        carried = (*error.args, getattr(error, "reason", None), *getattr(error, "exceptions", ()))
        waiting += [error.__cause__, error.__context__, *(e for e in carried if isinstance(e, BaseException))]


_NOT_DOWNLOADED = "WeightsNotDownloaded"
"""The class of what stands for them."""


def lacking(error: BaseException) -> str | None:
    """Return what a run does not have or do that the error comes from, in a sentence; None for other errors."""
    asked = isinstance(error, EOFError) and _ASKING in words_of(error)
    unasked = "input() cannot be answered in a dry run" if asked else None
    return _refusal(error) or unasked or _unset(error) or _unloaded(error)


def _unloaded(error: BaseException) -> str | None:
    """Return the sentence for an error of weights that are used as values, and were not downloaded."""
    known = any(_NOT_DOWNLOADED in words_of(each) for each in chain(error))
    return "a dry run does not download weights, but the program uses their values" if known else None


def wants_more_processes(error: BaseException) -> bool:
    """Say whether torch refuses ranks or sizes that a group of more processes would have."""
    frame = innermost(error)
    inside = frame is not None and str(frame.f_globals.get("__name__")).startswith("torch.distributed.")
    return inside and isinstance(error, (RuntimeError, ValueError)) and _RANKS.search(words_of(error)) is not None


def missing_package(error: BaseException, others: Sequence[str] = ()) -> str | None:
    """Return the sentence that names the package for want of which an error was raised; None for other errors.

    ``others`` are modules that the program lacks as well.
    """
    for each in chain(error):
        if not isinstance(each, ImportError):
            continue
        said = _ABSENT.search(words_of(each))
        name = (each.name or (said.group(1) if said else "")).partition(".")[0]
        if isinstance(each, ModuleNotFoundError) and name and not is_there(name):
            return _to_install([name, *(other for other in others if other != name)])
        if _TO_INSTALL.search(words_of(each)):
            return words_of(each).strip().splitlines()[0]
    return _broken_package(error)


def _to_install(names: Sequence[str]) -> str:
    """Return the sentence for modules that are not there: which, where, and how to install them."""
    packages = " ".join(_DISTRIBUTIONS.get(name, name.replace("_", "-")) for name in names)
    where = sys.prefix if sys.prefix != sys.base_prefix else sys.executable
    quoted = [f"`{name}`" for name in names]
    if len(names) == 1:
        what, how = f"module {quoted[0]} is", "if it is a package"
    else:
        what, how = f"modules {', '.join(quoted[:-1])} and {quoted[-1]} are", "if they are packages"
    return (
        f"{what} neither in the project nor installed in {where}; {how}: `{sys.executable} -m pip install {packages}`"
    )


def _broken_package(error: BaseException) -> str | None:
    """Return the sentence for an installed package that fails as it is imported: it does not fit what else is there."""
    if not isinstance(error, Exception) or isinstance(error, MemoryError):
        return None
    frames = [f for f, _ in traceback.walk_tb(error.__traceback__) if not f.f_code.co_filename.startswith(_WORKER)]
    start = next((i for i in range(len(frames), 0, -1) if not _is_of_import(frames[i - 1])), 0)
    behind = frames[start:]
    package = next((package_of(frame) for frame in behind if is_installed(frame)), "")
    if not package or not (
        behind[0].f_code.co_filename.startswith(_IMPORTLIB) or behind[0].f_code.co_name == "<module>"
    ):
        return None  # Python leaves its own frames out of some tracebacks
    first = next((line.strip() for line in words_of(error).splitlines() if line.strip()), "")
    return f"the package `{package}` cannot be imported in {sys.prefix}: {type(error).__name__}: {first}"


def _is_of_import(frame: FrameType) -> bool:
    return is_installed(frame) or frame.f_code.co_filename.startswith(_IMPORTLIB)


def package_of(frame: FrameType) -> str:
    """Return the package that a frame's module is of; the file of one that is in none."""
    path = frame.f_code.co_filename
    folder = next((folder for folder in third_party_folders() if path.startswith(folder)), "")
    return path[len(folder) :].lstrip("/\\").replace("\\", "/").partition("/")[0] if folder else path


def _refusal(error: BaseException) -> str | None:
    """Return what the sandbox has refused, however the refusal was wrapped."""
    inmost_first = sorted(chain(error), key=lambda each: type(each).__name__ != "Blocked")
    for each in inmost_first:
        refused = _REFUSED.search(words_of(each))
        if refused is not None:
            return refused.group(1)
    for each in chain(error):
        if isinstance(each, (OSError, RuntimeError)) and _NO_NETWORK.search(words_of(each)):
            return "a dry run downloads nothing"
    return None


def _unset(error: BaseException) -> str | None:
    """Return that a variable of the environment is not set here, where the program reads one that it needs."""
    frame = innermost(error)
    if isinstance(error, KeyError) and frame is not None and isinstance(frame.f_locals.get("self"), type(os.environ)):
        return f"the environment variable {error.args[0]} is not set"
    return None


def innermost(error: BaseException) -> FrameType | None:
    """Return the frame that has raised an error."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1] if frames else None


def is_installed(frame: FrameType | None) -> bool:
    """Say whether a frame is of an installed package."""
    return frame is not None and frame.f_code.co_filename.startswith(third_party_folders())


def words_of(error: BaseException) -> str:
    """Return the words of an error."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the user's __str__ may raise anything
        return ""
