"""Images are made of checked parts and run anywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chart.chart import COMPONENTS
from tools.release.requirements import RELEASED, requirements

ROOT = Path(__file__).resolve().parents[2]
SERVICES = ROOT / "services"
IMAGES = (*COMPONENTS, "history")


@pytest.mark.proves("security.md#images-and-dependencies")
@pytest.mark.parametrize("image", [None, *IMAGES])
def test_every_dependency_is_pinned_to_hashes(image: str | None) -> None:
    """Those of an image, and of what builds it."""
    lock = (SERVICES / "build.lock").read_text()
    text = requirements(ROOT, f"di-{image}") if image else lock
    entries = re.split(r"\n(?=\S)", text.strip())
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+==[^ ]+ ", entry), entry
        assert "--hash=sha256:" in entry
    # Which index serves them is the builder's affair.
    assert "://" not in text


@pytest.mark.proves("security.md#images-and-dependencies")
@pytest.mark.parametrize("component", IMAGES)
def test_a_dockerfile(component: str) -> None:
    lines = (SERVICES / component / "Dockerfile").read_text().splitlines()
    instructions = [line for line in lines if re.match(r"[A-Z]+ ", line)]
    assert instructions[0] == "ARG BASE_IMAGE=python:3.13-slim"
    assert {i for i in instructions if i.startswith("FROM ")} == {
        "FROM ${BASE_IMAGE} AS tools",
        "FROM tools AS lock",
        "FROM tools AS builder",
        "FROM ${BASE_IMAGE}",
    }
    assert "USER 65532:65532" in instructions
    assert instructions[-1] == f'ENTRYPOINT ["di-{component}"]'
    # What is released is what is built.
    export = next(line for line in lines if "--output-file requirements.txt" in line)
    package, *extras = re.findall(r"--(?:package|extra) (\S+)", export)
    assert package == f"di-{component}"
    assert tuple(extras) == RELEASED[package]
    # One line an instruction.
    text = "\n".join(lines).replace("\\\n", "")
    # A base without a package manager must do, and every download is checked.
    assert not re.search(r"\b(apt|apt-get|apk|curl|wget)\b", text)
    installs = re.findall(r"bin/(?:uv )?pip(?: --python \S+)? (?:install|wheel)[^&]*", text)
    assert installs
    assert all("--require-hashes" in i or "--no-index" in i for i in installs)
