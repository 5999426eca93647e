"""The examples that come with `di`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from di_cli.actions.manifest import complete_manifest, documents_of, examples
from di_cli.edits.manifests import jobs_of
from di_cli.exit_codes import ExitCode
from tests.unit.cli.conftest import JOBS, Di

ROOT: Final = Path(__file__).resolve().parents[3]
LINKS: Final = ROOT / "cli/src/di_cli/examples"


def test_every_example_with_a_manifest_comes_with_di() -> None:
    """A new one is a link: ln -s ../../../../examples/NAME/job.yaml NAME.yaml"""
    there = {each.parent.name: each for each in (ROOT / "examples").glob("*/job.yaml")}
    assert examples() == sorted(there)
    for name, manifest in there.items():
        assert (LINKS / f"{name}.yaml").resolve() == manifest


def test_an_example_is_submitted_and_tried_by_its_name(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    di.node("gpu-1", 8)
    assert di("simulate", "-f", "progress").out.startswith("fits now: ")
    assert di("submit", "cartpole", "--image", "mine").out == "dijob/cartpole submitted\n"
    stored = di.world.objects[f"{JOBS}/cartpole"]
    assert stored["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"] == "mine"


def test_a_file_is_preferred_to_an_example(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cartpole").write_text("- 1")
    assert "cartpole: document 1 is no object" in di("submit", "cartpole").err


def test_an_unknown_file_is_reported_with_the_examples(di: Di) -> None:
    said = di("submit", "cartpol")
    assert said.code == ExitCode.FAILED
    assert "there is no file cartpol; examples: cartpole, coordinated-cartpole, " in said.err
    assert di("submit", "../examples/x").err.count("there is no file ../examples/x") == 1


def test_shells_complete_examples() -> None:
    assert complete_manifest("cart") == ["cartpole"]


def test_every_example_is_one_job() -> None:
    for name in examples():
        assert len(jobs_of(documents_of(name), name)) == 1, name
