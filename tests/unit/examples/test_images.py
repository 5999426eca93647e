"""What an image of the examples is made of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.images import ROOT, uses_package

EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/Dockerfile"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_what_is_copied_is_below_the_context(example: Path) -> None:
    context = ROOT if uses_package(example) else example
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (example / "Dockerfile").read_text(), re.M)
    assert copied
    for each in " ".join(copied).split():
        assert (context / each).exists(), each


def test_the_package_is_in_the_images_of_those_that_use_it() -> None:
    using = {example.name for example in EXAMPLES if uses_package(example)}
    assert {"cartpole", "coordinated-cartpole"} <= using
    for name in using:
        folder = ROOT / "examples" / name
        assert "COPY sdk/src /opt/app" in (folder / "Dockerfile").read_text()
        # Its own dependency is locked with those of the example.
        assert re.search(r"^requests==", (folder / "requirements.lock").read_text(), re.M)
