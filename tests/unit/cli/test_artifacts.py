"""Files that outlive the pods of a job: which they are, and the pod that reads them."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from di_cli.edits.kept_files import (
    KeptFile,
    KeptPath,
    folders,
    kept_files,
    kept_paths,
    listing,
    of_task,
    reader_pod,
    without_repeats,
)
from di_cli.exit_codes import ExitCode
from tests.unit.cli.conftest import JOBS, PODS, Di

MODELS = {"name": "models", "persistentVolumeClaim": {"claimName": "big"}}


def with_claims(job: dict[str, Any]) -> dict[str, Any]:
    """The job with checkpoints of the learner, and a claim that both tasks mount."""
    job["spec"]["checkpoint"] = {"persistentVolumeClaim": "saved"}
    job["spec"]["volumes"] = [MODELS, {"name": "scratch", "emptyDir": {}}]
    mounts = [
        {"name": "models", "mountPath": "/models/", "subPath": "a"},
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "models", "mountPath": "/by-pod", "subPathExpr": "$(POD)"},
    ]
    for task in job["spec"]["tasks"]:
        (container,) = task["template"]["spec"]["containers"]
        container["volumeMounts"] = mounts
    return job


KEPT = [
    KeptPath(task="learner", path="/checkpoint", claim="saved"),
    KeptPath(task="learner", path="/models", claim="big", sub_path="a"),
    KeptPath(task="collector", path="/models", claim="big", sub_path="a"),
]


@pytest.fixture
def ended(di: Di) -> dict[str, Any]:
    """A job with claims whose pods have ended."""
    job = with_claims(di.job(phase="Succeeded"))
    di.world.put(f"{JOBS}/cartpole", job)
    di.pod("cartpole", "learner", 0, 0, phase="Succeeded")
    return job


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl that writes its words into a file, and prints `told` beside it."""
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\necho \"$@\" >> '{tmp_path}/asked'\n/bin/cat '{tmp_path}/told'\n"
    )
    program.chmod(0o755)
    (tmp_path / "told").touch()
    monkeypatch.setenv("PATH", str(program.parent))
    return tmp_path


@pytest.fixture
def starting(di: Di, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The pods that were made; each runs as soon as it is waited for."""
    made: dict[str, Any] = {}

    def start(_: float) -> None:
        for key, pod in list(di.world.objects.items()):
            if key.startswith(f"{PODS}/cartpole-files-"):
                made[key] = pod
                di.world.put(key, {**pod, "status": {"phase": "Running"}})

    clock = SimpleNamespace(sleep=start, monotonic=time.monotonic)
    monkeypatch.setattr("di_cli.temporary_pod.time", clock)
    return made


def test_paths_on_claims_are_kept_of_checkpoints_and_templates(di: Di) -> None:
    job = with_claims(di.job())
    assert kept_paths(job) == KEPT
    job["spec"]["checkpoint"] = {"volume": "models", "path": "/saved"}
    assert kept_paths(job)[0] == KeptPath(task="learner", path="/saved", claim="big")
    assert kept_paths({"spec": {"tasks": [{"template": None}, None], "volumes": 3}}) == []


def test_roles_of_a_coordinated_job_have_paths_too() -> None:
    mounts = [{"name": "models", "mountPath": "/m"}]
    pods = {"spec": {"volumes": [MODELS], "containers": [{"volumeMounts": mounts}]}}
    spec = {"coordinated": {"learner": {"template": pods}, "collector": {"template": pods}}}
    job = {"spec": {**spec, "checkpoint": {"persistentVolumeClaim": "saved"}}}
    found = {(each.task, each.path, each.claim) for each in kept_paths(job)}
    assert found == {
        *{("learner", "/m", "big"), ("collector", "/m", "big"), ("learner", "/checkpoint", "saved")}
    }


@pytest.mark.parametrize(
    ("path", "task", "expected"),
    [
        ("/checkpoint", None, KEPT[:2]),
        ("/models/x/y", None, KEPT[:2]),
        ("/models", "collector", KEPT[2:]),
        ("/checkpoints", None, []),
        ("/checkpoint", "collector", []),
    ],
)
def test_a_path_is_read_with_all_paths_of_its_task(
    path: str, task: str | None, expected: list[KeptPath]
) -> None:
    assert of_task(KEPT, path, task) == expected


def test_files_of_a_claim_are_listed_once() -> None:
    assert without_repeats(KEPT) == {"learner": KEPT[:2]}
    assert listing(KEPT[:2])[:4] == ["find", "/checkpoint", "/models", "-type"]
    told = "   3 /models/b c\n 2048 /checkpoint/a\n 2051 total\n\nfind: x\n 9 /other\n"
    assert kept_files(told, KEPT[:2], {}) == [
        KeptFile("/checkpoint/a", "", "2.0 KiB", "saved", "learner"),
        KeptFile("/models/b c", "", "3 B", "big", "learner"),
    ]


def test_the_reading_pod_writes_nothing_and_is_no_pod_of_the_job(di: Di) -> None:
    job = with_claims(di.job())
    template = job["spec"]["tasks"][0]["template"]["spec"]
    template |= {"nodeSelector": {"a": "b"}, "securityContext": {"fsGroup": 5}, "hostIPC": True}
    pod = reader_pod(job, KEPT[:2], "cartpole-files-1", "")
    assert "labels" not in pod["metadata"]
    (owner,) = pod["metadata"]["ownerReferences"]
    assert owner.get("controller") is None
    assert (owner["kind"], owner["uid"]) == ("DIJob", "uid-cartpole")
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert (spec["nodeSelector"], spec["securityContext"]) == ({"a": "b"}, {"fsGroup": 5})
    assert "hostIPC" not in spec
    assert container["image"] == "example/learner"
    assert [(each["mountPath"], each["readOnly"]) for each in container["volumeMounts"]] == [
        ("/checkpoint", True),
        ("/models", True),
    ]
    assert container["volumeMounts"][1]["subPath"] == "a"
    assert [each["persistentVolumeClaim"]["claimName"] for each in spec["volumes"]] == [
        "saved",
        "big",
    ]
    other = reader_pod(job, KEPT[:2], "cartpole-files-1", "busybox")
    assert other["spec"]["containers"][0]["image"] == "busybox"


FOLDER = "di-artifacts/cartpole.uid-cartpole/results"
RESULTS = [
    KeptPath(task=task, path="/results", claim="shared", sub_path=FOLDER, is_of_pods=True)
    for task in ("learner", "collector")
]


def with_artifacts(job: dict[str, Any]) -> dict[str, Any]:
    """The job with a folder for each pod on a claim."""
    claim = {"persistentVolumeClaim": "shared"}
    job["spec"]["artifacts"] = [{"name": "results", "path": "/results", **claim}]
    return job


def test_artifacts_have_a_folder_for_each_pod(di: Di) -> None:
    job = with_artifacts(di.job())
    assert kept_paths(job) == RESULTS
    job["spec"]["artifacts"][0]["tasks"] = ["collector"]
    assert kept_paths(job) == RESULTS[1:]
    told = "1 /results/cartpole-collector-10/a/b\n2 /results/cartpole-learner-0/c\n3 /results/x/d\n"
    assert kept_files(told, RESULTS, job) == [
        KeptFile("/results/a/b", "cartpole-collector-10", "1 B", "shared", "collector"),
        KeptFile("/results/c", "cartpole-learner-0", "2 B", "shared", "learner"),
        KeptFile("/results/d", "x", "3 B", "shared", ""),
    ]
    pods = ["cartpole-collector-10", "cartpole-collector-2", "cartpole-learner-0"]
    listed = "\n".join([*pods, "lost+found"])
    assert folders(listed, job, None) == [*pods[2:], pods[1], pods[0]]
    assert folders(listed, job, "collector") == [pods[1], pods[0]]


def test_the_reading_pod_runs_on_the_node_that_has_the_claim(di: Di) -> None:
    job = with_artifacts(di.job())
    (term,) = reader_pod(job, RESULTS[:1], "reader", "", "n1")["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


@pytest.mark.usefixtures("starting")
@pytest.mark.parametrize(
    ("options", "pod"),
    [
        ((), "cartpole-learner-0"),
        (("--task", "collector"), "cartpole-collector-0"),
        (("--pod", "cartpole-collector-1"), "cartpole-collector-1"),
        (("--rank", "1"), "cartpole-collector-0"),
    ],
)
def test_the_folder_of_a_pod_is_read_after_its_end(
    di: Di, kubectl: Path, options: tuple[str, ...], pod: str
) -> None:
    di.world.put(f"{JOBS}/cartpole", with_artifacts(di.job(phase="Succeeded")))
    di.pod("cartpole", "learner", 0, 0, phase="Succeeded")
    di.pod("cartpole", "collector", 0, 1, phase="Succeeded")
    (kubectl / "told").write_text(
        "cartpole-collector-1\ncartpole-collector-0\ncartpole-learner-0\n"
    )
    said = di("cp", "cartpole:/results/a/model.pt", ".", *options)
    assert said.code == ExitCode.DONE, said.err
    *_, copied = (kubectl / "asked").read_text().splitlines()
    assert f":/results/{pod}/a/model.pt ./model.pt --container files" in copied


@pytest.mark.usefixtures("starting")
def test_a_pod_without_files_is_refused_with_those_that_have_some(di: Di, kubectl: Path) -> None:
    di.world.put(f"{JOBS}/cartpole", with_artifacts(di.job(phase="Succeeded")))
    (kubectl / "told").write_text("cartpole-learner-0\n")
    said = di("cp", "cartpole:/results", ".", "--pod", "cartpole-learner-1")
    assert said.code == ExitCode.NOT_FOUND
    assert said.err.splitlines()[1:] == [
        "error: no such pod of dijob/cartpole has left files in /results",
        "  pods with files: cartpole-learner-0",
        "  try: di artifacts cartpole, which names pods for --pod",
    ]


@pytest.mark.usefixtures("starting")
def test_artifacts_of_all_pods_are_listed_while_the_job_runs(di: Di, kubectl: Path) -> None:
    di.world.put(f"{JOBS}/cartpole", with_artifacts(di.job()))
    di.pod("cartpole", "learner", 0, 0)
    (kubectl / "told").write_text("5 /results/cartpole-learner-0/model.pt\n")
    said = di("artifacts", "cartpole")
    assert said.code == ExitCode.DONE, said.err
    assert [line.split() for line in said.lines] == [
        ["FILE", "SIZE", "CLAIM", "TASK", "POD"],
        ["/results/model.pt", "5", "B", "shared", "learner", "cartpole-learner-0"],
    ]


@pytest.mark.usefixtures("ended")
def test_files_are_copied_after_the_end_by_a_pod_that_is_deleted(
    di: Di, kubectl: Path, starting: dict[str, Any]
) -> None:
    said = di("cp", "cartpole:/checkpoint/model.pt", ".")
    assert said.code == ExitCode.DONE, said.err
    ((key, pod),) = starting.items()
    name = pod["metadata"]["name"]
    assert (kubectl / "asked").read_text() == (
        f"--context test --namespace rl cp {name}:/checkpoint/model.pt ./model.pt "
        "--container files\n"
    )
    assert key not in di.world.objects
    assert said.err.splitlines()[0] == f"pod {name} reads the claims of cartpole"


@pytest.mark.usefixtures("ended", "starting")
def test_artifacts_lists_the_files_of_an_ended_job(di: Di, kubectl: Path) -> None:
    (kubectl / "told").write_text("5 /checkpoint/model.pt\n")
    said = di("artifacts", "cartpole")
    assert said.code == ExitCode.DONE, said.err
    assert [line.split() for line in said.lines] == [
        ["FILE", "SIZE", "CLAIM", "TASK"],
        ["/checkpoint/model.pt", "5", "B", "saved", "learner"],
    ]


def test_artifacts_of_a_running_job_are_read_in_its_pod(di: Di, kubectl: Path) -> None:
    di.world.put(f"{JOBS}/cartpole", with_claims(di.job()))
    di.pod("cartpole", "learner", 0, 0)
    assert di("artifacts", "cartpole").code == ExitCode.DONE
    asked = (kubectl / "asked").read_text()
    assert "exec cartpole-learner-0 --container di-container -- find /checkpoint /models" in asked


def test_what_is_on_no_claim_is_refused(di: Di, ended: dict[str, Any]) -> None:
    said = di("cp", "cartpole:/scratch/x", ".")
    assert said.code == ExitCode.NOT_FOUND
    assert said.err.splitlines() == [
        "error: no pod of dijob/cartpole runs, and /scratch/x is on none of its claims",
        "  on claims: /checkpoint, /models",
        "  try: di artifacts cartpole",
    ]
    del ended["spec"]["checkpoint"], ended["spec"]["volumes"]
    di.world.put(f"{JOBS}/cartpole", ended)
    said = di("artifacts", "cartpole")
    assert said.code == ExitCode.NOT_FOUND
    assert said.err.startswith("error: dijob/cartpole has no files that outlive its pods")


@pytest.mark.usefixtures("ended")
def test_a_reading_pod_that_fails_is_deleted_and_explained(
    di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: float) -> None:
        for key, pod in list(di.world.objects.items()):
            if key.startswith(f"{PODS}/cartpole-files-"):
                waiting = {"reason": "ErrImagePull", "message": "no such image"}
                statuses = [{"name": "files", "state": {"waiting": waiting}}]
                status = {"phase": "Failed", "containerStatuses": statuses}
                di.world.put(key, {**pod, "status": status})

    clock = SimpleNamespace(sleep=fail, monotonic=time.monotonic)
    monkeypatch.setattr("di_cli.temporary_pod.time", clock)
    said = di("cp", "cartpole:/checkpoint", ".")
    assert said.code == ExitCode.FAILED
    assert "ErrImagePull: no such image" in said.err
    assert [key for key in di.world.objects if "cartpole-files-" in key] == []
