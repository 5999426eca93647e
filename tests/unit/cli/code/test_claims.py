"""Code that ConfigMaps cannot hold: on a claim, written by a pod for as long as that takes."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from di_api.defaults import with_defaults
from di_api.validation import validate_job
from di_cli.exit_codes import ExitCode
from di_unpack.program import chunks, unpack
from tests.unit.cli.code.claim_folder import claim_folder
from tests.unit.cli.code.test_submitting import MAPS, stored, writes
from tests.unit.cli.conftest import JOBS, PODS, Di

pytestmark = pytest.mark.usefixtures("light", "small")
CLAIMS = "/api/v1/namespaces/rl/persistentvolumeclaims"
LABEL = {"diengine/code-store": "true"}
PAGE = Path(__file__).resolve().parents[4] / "docs/how-to/own-code.md"
VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """ConfigMaps that hold little, so that bundles of the tests are large ones."""
    for module in ("code.bundle", "code.claims", "commands.run.submit"):
        monkeypatch.setattr(f"di_cli.{module}.MOST_IN_PARTS", 4096)


@pytest.fixture
def claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of bundles on the claim."""
    return claim_folder(tmp_path, monkeypatch)


@pytest.fixture
def made(di: Di, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The pods that were made; each runs as soon as it is waited for."""
    found: dict[str, Any] = {}

    def start(_: float) -> None:
        for path, pod in list(di.world.objects.items()):
            if path.startswith(PODS) and "-di-code-" in path and "status" not in pod:
                found[path] = pod
                di.world.put(path, {**pod, "status": {"phase": "Running"}})

    clock = SimpleNamespace(sleep=start, monotonic=time.monotonic)
    monkeypatch.setattr("di_cli.temporary_pod.time", clock)
    return found


def add_claim(di: Di, name: str, modes: str = "ReadWriteMany", **labels: str) -> None:
    metadata = {"name": name, "namespace": "rl", "labels": labels}
    di.world.put(f"{CLAIMS}/{name}", {"metadata": metadata, "spec": {"accessModes": [modes]}})


@pytest.fixture
def large(folder: Path) -> Path:
    (folder / "data.bin").write_bytes(os.urandom(8192))
    return folder


def code_of(di: Di) -> dict[str, Any]:
    found: dict[str, Any] = stored(di)["spec"]["code"]
    return found


@pytest.mark.proves("own-code.md#large-code")
def test_large_code_goes_to_the_claim_of_the_namespace(
    di: Di, large: Path, claim: Path, made: dict[str, Any], tmp_path: Path
) -> None:
    add_claim(di, "shared", **LABEL)
    add_claim(di, "other")
    said = di("submit", ".", "--name", "train")
    assert (said.code, said.out) == (0, "dijob/train submitted\n")
    assert said.err.endswith("KiB go to claim shared\n")
    code = code_of(di)
    assert code["persistentVolumeClaim"] == "shared"
    assert code["configMap"] == f"train-code-{code['sha256'][:12]}-files"
    assert "parts" not in code
    assert not validate_job(with_defaults(stored(di)))
    # What a pod unpacks is what was here.
    target = tmp_path / "pod"
    target.mkdir()
    bundle = claim / code["sha256"] / "bundle.tar.gz"
    unpack(chunks(str(bundle), 1), code["sha256"], str(target))
    assert (target / "data.bin").read_bytes() == (large / "data.bin").read_bytes()
    # The pod has the placement of the job, this folder alone, and is gone.
    (pod,) = made.values()
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "python:3.13-slim"
    (mount,) = container["volumeMounts"]
    assert (mount["mountPath"], mount["subPath"]) == ("/di-code", "di-code")
    assert not [path for path in di.world.objects if path.startswith(PODS)]
    # The bundle is there before the job, and its ConfigMap is the job's.
    assert writes(di) == [
        *("POST pods", "DELETE pods", "POST configmaps", "POST dijobs", "PATCH configmaps")
    ]
    found = stored(di, "configmaps")
    assert found["metadata"]["annotations"]["diengine/code-sha256"] == code["sha256"]
    assert found["metadata"]["ownerReferences"][0]["name"] == "train"


@pytest.mark.usefixtures("large", "claim", "made")
def test_the_page_has_the_rights_that_large_code_needs(di: Di) -> None:
    add_claim(di, "shared", **LABEL)
    assert di("submit", ".", "--name", "train", "--store", "shared").code == 0
    di("submit", ".", "--name", "other", "--store", "shared")
    assert di("submit", ".", "--name", "third").code == 0
    used = set()
    for method, path, _ in di.world.requests:
        *_, plural, name = path.partition("?")[0].split("/")
        verb = VERBS.get(method, "get")
        if method == "POST" or name in ("pods", "configmaps", "persistentvolumeclaims"):
            plural, verb = name, "list" if method == "GET" else verb
        used.add(f"{verb} {plural}")
    (section,) = re.findall(
        r"^## Large code\n(.*?)^## ", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    words = re.findall(r"`((?!di )[a-z]+\s[a-z/]+)`", section)
    named = {" ".join(each.split()) for each in words}
    program = {"create dijobs", "create configmaps", "patch configmaps"}
    assert named == used - program | {"create pods/exec"}


@pytest.mark.usefixtures("made")
def test_a_push_names_the_changes_and_keeps_bundles_that_jobs_need(
    di: Di, large: Path, claim: Path, tmp_path: Path
) -> None:
    add_claim(di, "shared")
    assert di("submit", ".", "--name", "train", "--store", "shared").code == 0
    di.world.objects[f"{JOBS}/train"]["status"] = {}
    first = code_of(di)["sha256"]
    (large / "train.py").write_text("print('second')\n")
    # The claim is that of the job; the bundle before is kept, and a stranger's is not.
    for name in (first, "5" * 64):
        (claim / name).mkdir(exist_ok=True)
        os.utime(claim / name, (0, 0))
    said = di("push", "train")
    assert said.out == "dijob/train restarts with new code: train.py\n"
    second = code_of(di)["sha256"]
    assert {each.name for each in claim.iterdir()} == {first, second}
    assert (tmp_path / "asked").read_text().count("exec --stdin train-di-code-") == 4
    assert di("push", "train").out == "dijob/train has this code already\n"
    # Code that became small is in ConfigMaps again.
    (large / "data.bin").unlink()
    assert di("push", "train").out == "dijob/train restarts with new code: data.bin\n"
    assert not code_of(di).get("persistentVolumeClaim")


@pytest.mark.usefixtures("claim", "made")
def test_another_folder_than_that_of_the_job_is_refused_for_large_code_too(
    di: Di, large: Path, tmp_path: Path
) -> None:
    add_claim(di, "shared", **LABEL)
    assert di("submit", ".", "--name", "train").code == 0
    di.world.objects[f"{JOBS}/train"]["status"] = {}
    other = tmp_path / "another"
    other.mkdir()
    (other / "a.py").touch()
    assert (
        f"{other} has no train.py, which dijob/train starts" in di("push", "train", str(other)).err
    )


@pytest.mark.proves("own-code.md#large-code")
def test_without_a_claim_the_error_names_the_ways(di: Di, large: Path) -> None:
    said = di("submit", ".", "--name", "train")
    assert said.code == ExitCode.FAILED
    assert "namespace rl has no claim for code" in said.err
    assert "8 KiB data.bin" in said.err
    assert ".diignore" in said.err
    assert "--store CLAIM" in said.err
    assert "label persistentvolumeclaim CLAIM diengine/code-store=true" in said.err
    add_claim(di, "one", **LABEL)
    add_claim(di, "two", **LABEL)
    said = di("submit", ".", "--name", "train")
    assert "several claims of namespace rl are for code: one, two" in said.err
    said = di("submit", ".", "--name", "train", "--store", "none")
    assert (said.code, "there is no claim none in namespace rl" in said.err) == (
        ExitCode.NOT_FOUND,
        True,
    )
    said = di("submit", ".", "--dry-run", "client")
    assert "a manifest has 4 KiB of code at most" in said.err
    assert writes(di) == []


def test_small_code_needs_no_claim(di: Di, folder: Path) -> None:
    assert di("submit", "train.py", "--store", "none").code == 0
    assert "persistentVolumeClaim" not in code_of(di)


@pytest.mark.usefixtures("made", "large")
def test_a_bundle_that_was_not_kept_starts_no_job(di: Di, claim: Path, tmp_path: Path) -> None:
    add_claim(di, "shared", **LABEL)
    text = (tmp_path / "keep.py").read_text()
    (tmp_path / "keep.py").write_text(
        text.replace("opened.flush()", "raise OSError(28, 'No space left')")
    )
    said = di("submit", ".", "--name", "train")
    assert "the code is not on claim shared, and nothing was submitted or pushed" in said.err
    assert "a larger claim, or di delete of jobs" in said.err
    assert not list(claim.iterdir())
    assert writes(di) == ["POST pods", "DELETE pods"]
    # The same command continues.
    (tmp_path / "keep.py").write_text(text)
    assert di("submit", ".", "--name", "train").code == 0


@pytest.mark.usefixtures("large", "claim", "made")
def test_a_refused_job_starts_no_pod(di: Di) -> None:
    add_claim(di, "shared", **LABEL)
    di.job("train")
    assert "dijob/train exists already" in di("submit", ".", "--name", "train").err
    assert not [each for each in writes(di) if "pods" in each]


@pytest.mark.usefixtures("claim")
@pytest.mark.parametrize(("modes", "node"), [("ReadWriteMany", False), ("ReadWriteOnce", True)])
def test_the_pod_is_on_the_node_of_the_job_if_the_claim_is(
    di: Di, large: Path, made: dict[str, Any], modes: str, node: bool
) -> None:
    add_claim(di, "shared", modes, **LABEL)
    assert di("submit", ".", "--name", "train").code == 0
    di.world.objects[f"{JOBS}/train"]["status"] = {}
    di.pod("train", "learner", 0, 0)
    path = f"{PODS}/train-learner-0"
    pod = di.world.objects[path]
    di.world.put(path, {**pod, "spec": {**pod.get("spec", {}), "nodeName": "gpu-7"}})
    made.clear()
    (large / "train.py").write_text("print('second')\n")
    assert di("push", "train").code == 0
    (found,) = made.values()
    assert ("gpu-7" in str(found["spec"].get("affinity"))) is node


@pytest.mark.usefixtures("large", "claim", "made")
def test_pods_of_interrupted_commands_are_deleted(di: Di) -> None:
    add_claim(di, "shared", **LABEL)
    labels = {"labels": {"diengine/code-of": "train"}}
    for name, phase in (("train-di-code-1", "Failed"), ("train-di-code-2", "Running")):
        metadata = {"name": name, "namespace": "rl", **labels}
        di.world.put(f"{PODS}/{name}", {"metadata": metadata, "status": {"phase": phase}})
    assert di("submit", ".", "--name", "train").code == 0
    left = [path.rpartition("/")[2] for path in di.world.objects if path.startswith(PODS)]
    assert left == ["train-di-code-2"]
    assert [path for path in di.world.objects if path.startswith(MAPS)]
