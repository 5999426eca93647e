"""The documents' site, built strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.release import site


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    site.build(directory)
    return directory


def test_the_site_needs_no_other_host(built: Path) -> None:
    assert list(site.foreign(built)) == []
    first = (built / "index.html").read_text()
    assert "<h1" in first
    assert 'src="images/cartpole.png"' in first
    assert 'href="how-to/runbook.html#when-something-is-wrong"' in first


def test_files_that_documents_link_to_are_pages(built: Path) -> None:
    manifest = (built / "examples/progress/job.yaml.html").read_text()
    assert "progressPolicy" in manifest
    assert "<code>examples/cartpole/job.yaml</code>" in (
        (built / "examples/cartpole/index.html").read_text()
    )
    assert (
        'href="../../examples/progress/job.yaml"'
        not in (built / "reference/lifecycle.html").read_text()
    )
