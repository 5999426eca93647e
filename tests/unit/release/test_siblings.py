"""Installing from a clone refers to the packages of the clone, and documents name no index."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools.release.siblings import projects, refer, references, required
from tools.release.version import ROOT

OURS = projects(ROOT)


@pytest.mark.parametrize("name", ["di-cli", "di-orchestrator", "di-local", "di-dashboard"])
def test_each_package_of_ours_that_pip_reaches_has_a_reference(name: str) -> None:
    extras = ["", *OURS[name][1].get("optional-dependencies", {})]
    given = list(references(OURS, name))
    for extra in extras:
        wanted = required(OURS, [f"{name}[{extra}]" if extra else name])
        for each in set(wanted) - {name}:
            reference = f"{each} @ {OURS[each][0].as_uri()}"
            assert {reference, f"{reference} ; extra == '{extra}'"} & set(given), (extra, each)


def test_packages_with_others_of_ours_build_with_the_hook() -> None:
    """Those that people install; the others are installed with them."""
    hooked = {
        name
        for name, (folder, _) in OURS.items()
        if "release/siblings.py" in (folder / "pyproject.toml").read_text()
    }
    assert hooked == {"di-cli", "di-orchestrator", "di-local", "di-dashboard"}


def test_references_come_before_other_requirements(tmp_path: Path) -> None:
    wheel = tmp_path / "di_cli-1-py3-none-any.whl"
    folder = "di_cli-1.dist-info"
    with ZipFile(wheel, "w") as archive:
        archive.writestr(
            f"{folder}/METADATA",
            "Metadata-Version: 2.4\nName: di-cli\nRequires-Dist: di-api==1\n\nText of ours\n",
        )
        archive.writestr(
            f"{folder}/RECORD", f"{folder}/METADATA,sha256=x,1\n{folder}/RECORD,,\ndi_cli/a.py,,\n"
        )
    refer(wheel, OURS)
    with ZipFile(wheel) as archive:
        text = archive.read(f"{folder}/METADATA").decode()
        record = archive.read(f"{folder}/RECORD").decode().splitlines()
    asked = re.findall(r"Requires-Dist: (.*)", text)
    assert [*references(OURS, "di-cli"), "di-api==1"] == asked
    assert text.endswith("\n\nText of ours\n")
    assert record[1:] == [f"{folder}/RECORD,,", "di_cli/a.py,,"]
    assert record[0].endswith(f",{len(text.encode())}")


def test_extras_count_only_where_they_are_asked_for() -> None:
    assert set(required(OURS, ["di-orchestrator"])) == {"di-orchestrator"}
    with_service = required(OURS, ["di-server", "requests"])
    assert with_service["di-service"] == {"serving"}
    assert "di-local" in required(OURS, ["di-cli"], all_extras=True)


def test_no_text_asks_an_index_for_our_packages() -> None:
    """Neither documents nor messages: anyone can publish a package of our names there."""
    pages = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    texts = (*pages, *ROOT.glob("*/src/**/*.py"), *ROOT.glob("*/*/src/**/*.py"))
    names = "|".join(OURS)
    asks = re.compile(rf"(?:pip|uv tool|pipx) install [^\n#]*?[ '\"](?:{names})\b")
    beside = re.compile(r"install [^\n#]*--find-links")
    for text in texts:
        said = text.read_text()
        assert not asks.search(said), text
        assert not beside.search(said), text
