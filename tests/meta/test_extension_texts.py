"""What users of VS Code read can be translated: no text of the extension stands outside of its bundle."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from extension_texts import loose, sources, texts

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "editor-client" / "vscode"


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(EXTENSION / "src").as_posix())
def test_no_text_stands_outside(path: Path) -> None:
    assert loose(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('show("Open a file first.")', ["Open a file first."]),
        ('show(vscode.l10n.t("Open a file first."))', []),
        ("title = `Result of ${name}`", ["Result of "]),
        ("title = `${run ? `Dry run: ${run}` : t('Dry run')}`", ["Dry run: "]),
        ('button("Cancel", { class: "primary" })', ["Cancel"]),
        ('// Show it "as it is".\nlog.info(`started ${command} again`)', []),
    ],
)
def test_such_a_text_is_seen(code: str, found: list[str]) -> None:
    assert loose(code) == found


def test_translations_say_what_is_asked_for_and_keep_the_places_of_values() -> None:
    bundle = texts()
    assert len(bundle) > 50
    manifest = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    packed = (EXTENSION / ".vscodeignore").read_text(encoding="utf-8").splitlines()
    assert f"!{Path(manifest['l10n'])}/**" in packed
    for path in (EXTENSION / "l10n").glob("bundle.l10n.*.json"):
        translated: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        assert translated.keys() <= bundle.keys()
        for text, translation in translated.items():
            assert sorted(re.findall(r"\{\d\}", text)) == sorted(re.findall(r"\{\d\}", translation))
