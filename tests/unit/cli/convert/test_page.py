"""The page docs/how-to/from-other-operators.md: its manifests, converted, are its DIJobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from di_api.validation import validate_job
from di_cli.convert.manifests import KINDS
from di_cli.exit_codes import ExitCode
from tests.unit.cli.conftest import Di
from tests.unit.cli.convert.manifests import convert_one
from tests.unit.cli.convert.smallest import SMALLEST

PAGE = Path(__file__).resolve().parents[4] / "docs/how-to/from-other-operators.md"
_PAIR = re.compile(
    r"^```yaml\n(.*?)^```\n\nbecomes\n\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def pairs() -> dict[str, tuple[str, str]]:
    """The manifest and the DIJob of each kind on the page."""
    found = _PAIR.findall(PAGE.read_text())
    return {yaml.safe_load(before)["kind"]: (before, after) for before, after in found}


@pytest.mark.proves("from-other-operators.md#from-other-operators/*")
def test_the_page_has_each_kind() -> None:
    assert [*pairs()] == [*dict.fromkeys(kind for _, kind in KINDS)]
    rows = re.findall(r"^\| `(\w+)` \| `([\w./-]+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert [(version, kind) for kind, version in rows] == [*KINDS]


@pytest.mark.parametrize("kind", pairs())
def test_the_manifest_of_the_page_becomes_its_dijob(di: Di, tmp_path: Path, kind: str) -> None:
    before, after = pairs()[kind]
    (tmp_path / "before.yaml").write_text(before)
    said = di("convert", "-f", str(tmp_path / "before.yaml"))
    assert (said.code, said.err) == (ExitCode.DONE, "")
    assert said.out == after
    assert validate_job(yaml.safe_load(after)) == []


@pytest.mark.proves("from-other-operators.md#what-is-common")
def test_all_manifests_of_a_file_are_converted_or_none(di: Di, tmp_path: Path) -> None:
    before, after = pairs()["PyTorchJob"]
    file = tmp_path / "all.yaml"
    file.write_text(f"{before}---\n{before}---\n")
    assert di("convert", "-f", str(file)).out == f"{after}---\n{after}"
    file.write_text(f"{before}---\nkind: ConfigMap\napiVersion: v1\n")
    said = di("convert", "-f", str(file))
    assert (said.code, said.out) == (ExitCode.FAILED, "")
    assert "  kind: ConfigMap of v1 is not converted; the kinds are PyTorchJob" in said.err
    assert "  try: remove the document from the file" in said.err


def test_manifests_of_a_list_are_converted(di: Di, tmp_path: Path) -> None:
    before, after = pairs()["PyTorchJob"]
    whole = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(before)]}
    (tmp_path / "list.yaml").write_text(yaml.safe_dump(whole, sort_keys=False))
    assert di("convert", "-f", str(tmp_path / "list.yaml")).out == after


@pytest.mark.parametrize(
    ("text", "error"),
    [("", "there is no manifest"), ("[1", "nothing was converted"), ("- 1", "must be an object")],
)
def test_a_file_without_a_manifest_is_an_error(
    di: Di, tmp_path: Path, text: str, error: str
) -> None:
    (tmp_path / "x.yaml").write_text(text)
    said = di("convert", "-f", str(tmp_path / "x.yaml"))
    assert said.code == ExitCode.FAILED
    assert error in said.err


def test_a_comment_has_one_line_whatever_the_name_of_its_field_is(di: Di, tmp_path: Path) -> None:
    before, after = pairs()["PyTorchJob"]
    manifest = yaml.safe_load(before)
    manifest["spec"]["odd\nspec: 1"] = 1
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    found = yaml.safe_load(di("convert", "-f", str(tmp_path / "x.yaml")).out)
    assert found == yaml.safe_load(after)


@pytest.mark.parametrize("kind", SMALLEST)
def test_the_small_manifest_of_a_kind_runs_the_given_command(kind: str) -> None:
    found = convert_one(SMALLEST[kind]("image:1", ["python3", "train.py"]))
    assert (
        validate_job({**found.job, "metadata": {**found.job["metadata"], "namespace": "a"}}) == []
    )
    assert "train.py" in str(found.job)
