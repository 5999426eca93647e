"""Two Pythons are tested and promised: that of the images, and the oldest supported one."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tools.release import kubectl_di

ROOT: Final = Path(__file__).resolve().parents[2]
_IN_ALL_PYTHONS: Final = "sdk"
"""The package of training programs, which choose their Python; vermin checks it."""


def shown(role: str) -> str:
    """The version that the environment gets, from where bootstrap reads it."""
    command = [str(ROOT / "bootstrap"), "--show", role]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


NEWEST, OLDEST = shown("newest"), shown("oldest")


def texts() -> Iterator[tuple[str, str]]:
    """Path and text of what names a Python: documents, Dockerfiles, messages."""
    files = ("*.md", "docs/**/*.md", "docker-compose.yml", "tools/release/*.py", "bootstrap")
    images = ("dashboard/Dockerfile", "services/*/Dockerfile", "examples/*/Dockerfile")
    for path in (path for pattern in (*files, *images) for path in ROOT.glob(pattern)):
        yield path.relative_to(ROOT).as_posix(), path.read_text()


def test_bootstrap_reads_a_minor_version_and_the_exact_oldest_one() -> None:
    assert re.fullmatch(r"3\.\d+", NEWEST)
    assert re.fullmatch(r"3\.\d+\.\d+", OLDEST)


def test_every_image_and_document_names_the_newest_as_base() -> None:
    named = {
        name: set(re.findall(r"(?:BASE_IMAGE(?:=|:-)|`)python:([\w.]+)-slim", text))
        for name, text in texts()
    }
    assert {name for name, versions in named.items() if versions - {NEWEST}} == set()
    services = {f"services/{each}/Dockerfile" for each in ("operator", "server", "webhook")}
    services |= {"services/history/Dockerfile", "dashboard/Dockerfile", "docs/how-to/cluster.md"}
    assert {name for name, versions in named.items() if versions} >= services


def test_every_document_promises_the_oldest_version() -> None:
    promised = {
        (name, version)
        for name, text in texts()
        for version in re.findall(r"\bPython (3[\d.]*\d) +or\s+newer", text)
    }
    others = {
        ("docs/reference/sdk.md", "3.9"),  # the package of training programs
        ("docs/reference/cli.md", "3.9"),  # the same one, as it is installed from a clone
        ("docs/reference/dijob.md", "3.8"),  # the node check, in the image of a job
    }
    assert {each for each in promised if each[1] != OLDEST} == others
    assert {name for name, _ in promised} >= {
        *("README.md", "CONTRIBUTING.md", "docs/how-to/operations.md", "docs/how-to/local.md"),
        *("services/operator/Dockerfile", "tools/release/krew.py", "tools/release/kubectl_di.py"),
    }


@pytest.mark.parametrize(
    "page", ["docs/how-to/operations.md", "docs/how-to/development.md", "CHANGELOG.md"]
)
def test_a_document_names_both_tested_versions(page: str) -> None:
    text = (ROOT / page).read_text()
    assert re.search(rf"\b{re.escape(OLDEST)}\b", text)
    assert re.search(rf"\b{re.escape(NEWEST)}\b(?!\.\d)", text)
    if page == "docs/how-to/operations.md":
        assert f"Python {OLDEST} or newer (the tests run on {OLDEST} and {NEWEST})" in text


def test_every_package_requires_the_oldest() -> None:
    folders = (".", "[a-z]*", "libraries/*", "services/*", "tools/*", "examples/*")
    files = [path for each in folders for path in ROOT.glob(f"{each}/pyproject.toml")]
    required = {
        path.relative_to(ROOT).parent.as_posix(): found["project"]["requires-python"]
        for path in files
        # An example without a program of its own is no package.
        if "project" in (found := tomllib.loads(path.read_text()))
    }
    assert len(required) > 10
    assert {name for name, version in required.items() if version != f">={OLDEST}"} == {
        _IN_ALL_PYTHONS
    }


def test_static_checks_and_the_krew_plugin_use_the_oldest() -> None:
    minor = OLDEST.rpartition(".")[0]
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert tools["mypy"]["python_version"] == minor
    assert tools["ruff"]["target-version"] == "py" + minor.replace(".", "")
    assert ".".join(map(str, kubectl_di.OLDEST)) == OLDEST
