"""Put drygrad and its dependencies, all pure Python, into the VS Code extension: ``python tools/bundle_server.py``."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTENSION = ROOT / "editor-client" / "vscode"
OLDEST_PYTHON = "3.10"
# pip reads the markers of requirements for the Python that it runs on; these are wanted before 3.11.
BEFORE_PYTHON_3_11 = ["tomli>=2", "exceptiongroup>=1.1"]
# Scripts that name this machine's interpreter; jedi's stubs of packages without tensors, which are most of its files.
NOT_NEEDED = ["bin", "jedi/third_party/typeshed/stubs", "jedi/third_party/django-stubs"]
ANY_MACHINE = ["--platform", "any", "--implementation", "py", "--abi", "none", "--python-version", OLDEST_PYTHON]


def pip(*arguments: str) -> None:
    """Run pip; its errors are shown."""
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def forget_origin(libraries: Path) -> None:
    """Remove where the wheel was when it was installed: the same server is to make the same extension."""
    for origin in libraries.glob("*.dist-info/direct_url.json"):
        record = origin.with_name("RECORD")
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
        record.write_text("".join(line for line in lines if f"/{origin.name}," not in line), encoding="utf-8")
        origin.unlink()


def main() -> None:
    """Build the wheel, and install it with what it needs for every platform and Python."""
    target = EXTENSION / "bundled"
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        pip("wheel", "--no-deps", "--wheel-dir", folder, str(ROOT))
        wheel = next(Path(folder).glob("*.whl"))
        libraries = ["--target", str(target / "libs"), "--no-compile", "--only-binary=:all:", *ANY_MACHINE]
        pip("install", *libraries, str(wheel), *BEFORE_PYTHON_3_11)
    forget_origin(target / "libs")
    for part in NOT_NEEDED:
        shutil.rmtree(target / "libs" / part)
    shutil.copy(EXTENSION / "server" / "drygrad.py", target / "drygrad.py")
    shutil.copy(ROOT / "LICENSE", EXTENSION / "LICENSE")
    if compiled := [path for path in target.rglob("*") if path.suffix in (".so", ".pyd")]:
        raise SystemExit(f"not pure Python: {', '.join(path.name for path in compiled)}")


if __name__ == "__main__":
    main()
