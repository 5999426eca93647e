"""`di push`: another bundle for a job that runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.code.test_submitting import MAPS, stored, writes
from tests.unit.cli.conftest import JOBS, Di

pytestmark = pytest.mark.usefixtures("light")


@pytest.fixture
def submitted(di: Di, folder: Path) -> Di:
    """A job `train` of the program `train.py`."""
    assert di("submit", "train.py", "--collectors", "2").code == 0
    job = stored(di)
    di.world.put(f"{JOBS}/train", {**job, "metadata": {**job["metadata"], "uid": "uid-train"}})
    for path, found in list(di.world.objects.items()):
        if path.startswith(MAPS):
            (owner,) = found["metadata"]["ownerReferences"]
            references = {"ownerReferences": [{**owner, "uid": "uid-train"}]}
            di.world.put(path, {**found, "metadata": {**found["metadata"], **references}})
    di.world.requests.clear()
    return di


def code(di: Di) -> dict[str, Any]:
    found: dict[str, Any] = di.world.objects[f"{JOBS}/train"]["spec"]["code"]
    return found


def test_a_changed_program_restarts_the_job(submitted: Di, folder: Path) -> None:
    before = code(submitted)
    (folder / "train.py").write_text("print('second line')\n")
    said = submitted("push", "train")
    assert (said.code, said.out) == (0, "dijob/train restarts with new code: train.py\n")
    after = code(submitted)
    assert after["sha256"] != before["sha256"]
    assert writes(submitted) == ["POST configmaps", "PATCH dijobs"]
    new = submitted.world.objects[f"{MAPS}/{after['configMap']}"]
    (owner,) = new["metadata"]["ownerReferences"]
    assert (owner["name"], owner["uid"]) == ("train", "uid-train")


def test_the_same_code_changes_nothing(submitted: Di) -> None:
    before = code(submitted)
    assert submitted("push", "train").out == "dijob/train has this code already\n"
    assert code(submitted) == before
    assert "PATCH dijobs" not in writes(submitted)


def test_an_unowned_config_map_gets_its_owner(submitted: Di) -> None:
    path = f"{MAPS}/{code(submitted)['configMap']}"
    found = submitted.world.objects[path]
    metadata = {k: v for k, v in found["metadata"].items() if k != "ownerReferences"}
    submitted.world.put(path, {**found, "metadata": metadata})
    assert submitted("push", "train").code == 0
    (owner,) = submitted.world.objects[path]["metadata"]["ownerReferences"]
    assert owner["uid"] == "uid-train"


def test_requirements_can_be_added_and_are_kept(submitted: Di, folder: Path) -> None:
    (folder / "requirements.txt").write_text("numpy\n")
    assert submitted("push", "train", "--with", "requirements.txt").code == 0
    assert code(submitted)["requirements"] == "requirements.txt"
    (folder / "train.py").write_text("import numpy\n")
    assert submitted("push", "train").out.endswith("new code: train.py\n")
    assert code(submitted)["requirements"] == "requirements.txt"


def test_a_suspended_job_gets_the_code_when_it_is_resumed(submitted: Di, folder: Path) -> None:
    job = submitted.world.objects[f"{JOBS}/train"]
    submitted.world.put(f"{JOBS}/train", {**job, "spec": {**job["spec"], "suspend": True}})
    (folder / "train.py").write_text("print('second line')\n")
    assert "restarts with new code when it is resumed: train.py" in submitted("push", "train").out


def test_the_latest_bundles_are_kept_and_older_ones_deleted(submitted: Di, folder: Path) -> None:
    for number in range(8):
        (folder / "train.py").write_text(f"print({number})\n")
        assert submitted("push", "train").code == 0
        path = f"{MAPS}/{code(submitted)['configMap']}"
        found = submitted.world.objects[path]
        time = {"creationTimestamp": f"2026-03-01T09:00:0{number}Z"}
        submitted.world.put(path, {**found, "metadata": {**found["metadata"], **time}})
    kept = [path for path in submitted.world.objects if path.startswith(MAPS)]
    assert len(kept) == 6
    assert f"{MAPS}/{code(submitted)['configMap']}" in kept


@pytest.mark.proves("own-code.md#push-from-another-folder")
def test_another_folder_than_before_is_refused(
    submitted: Di, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = folder.parent / "other"
    other.mkdir()
    (other / "a.py").touch()
    assert "there is no file or folder none" in submitted("push", "train", "none").err
    said = submitted("push", "train", str(other))
    assert f"error: {other} has no train.py, which dijob/train starts\n" in said.err
    monkeypatch.chdir(other)
    assert "there is no train.py here, from which dijob/train" in submitted("push", "train").err
    assert writes(submitted) == []
    assert submitted("push", "train", str(folder)).code == 0
    annotation = submitted.world.objects[f"{MAPS}/{code(submitted)['configMap']}"]["metadata"]
    assert annotation["annotations"] == {"diengine/code-source": "train.py"}


@pytest.mark.parametrize("source", ["/etc/passwd", "../a", None])
def test_a_source_outside_of_the_folder_is_never_read(submitted: Di, source: str | None) -> None:
    path = f"{MAPS}/{code(submitted)['configMap']}"
    found = submitted.world.objects[path]
    annotations = {"annotations": {"diengine/code-source": source}}
    submitted.world.put(path, {**found, "metadata": {**found["metadata"], **annotations}})
    said = submitted("push", "train")
    assert "it is unknown from where dijob/train got its code" in said.err
    assert writes(submitted) == []


def test_a_lost_config_map_is_replaced(submitted: Di) -> None:
    before = code(submitted)["configMap"]
    submitted.world.remove(f"{MAPS}/{before}")
    assert submitted("push", "train").code != 0
    assert submitted("push", "train", "train.py").out == "dijob/train has this code already\n"
    assert f"{MAPS}/{before}" in submitted.world.objects


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"spec": {"tasks": []}}, "dijob/train has no spec.code: its program is in its image"),
        ({"status": {"phase": "Succeeded"}}, "dijob/train is Succeeded, and its spec cannot"),
    ],
)
def test_jobs_that_cannot_change_are_refused(
    submitted: Di, changes: dict[str, Any], what: str
) -> None:
    job = submitted.world.objects[f"{JOBS}/train"]
    submitted.world.put(f"{JOBS}/train", {**job, **changes})
    assert f"error: {what}" in submitted("push", "train").err
    assert writes(submitted) == []


def test_a_push_does_not_import_what_small_code_does_not_need() -> None:
    program = (
        "import sys\n"
        "from di_cli.commands.change import push\n"
        "unneeded = ('di_api.spec', 'di_api.validation', 'di_api.explain', 'di_cli.code.claims')\n"
        "print(sorted(set(unneeded) & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
