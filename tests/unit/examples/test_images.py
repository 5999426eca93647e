"""What an image of the examples is made of."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from examples.images import ROOT, uses_package

PROJECTS = {path.with_name("pyproject.toml") for path in (ROOT / "examples").glob("*/Dockerfile")}
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/Dockerfile"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_copied_files_are_in_the_build_context(example: Path) -> None:
    context = ROOT if uses_package(example) else example
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (example / "Dockerfile").read_text(), re.M)
    assert copied
    for each in " ".join(copied).split():
        assert (context / each).exists(), each


def test_images_of_users_contain_the_package() -> None:
    using = {example.name for example in EXAMPLES if uses_package(example)}
    assert {"cartpole", "coordinated-cartpole", "di-engine", "grpo", "impala"} <= using
    for name in using:
        # Its own dependency is locked with those of the example.
        lock = (ROOT / "examples" / name / "requirements.lock").read_text()
        assert re.search(r"^requests==", lock, re.M)


@pytest.mark.parametrize(
    "project", sorted({*ROOT.glob("examples/*/pyproject.toml")} & PROJECTS), ids=str
)
def test_a_dependency_on_the_package_is_in_the_image(project: Path) -> None:
    found = tomllib.loads(project.read_text())["project"]
    assert ("di-orchestrator" in found["dependencies"]) == uses_package(project.parent)
