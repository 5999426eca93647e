"""Files on a claim are listed and copied while a job runs, and after its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.claims import claim_of
from tests.e2e.jobs import job, task
from tests.e2e.kubectl import Kubectl
from tests.waiting import wait_until

PROGRAM = """
import os, pathlib, time
kept = pathlib.Path(os.environ["DI_CHECKPOINT_DIR"])
(kept / "models").mkdir()
(kept / "models" / "best one.pt").write_text("weights")
(kept / "curve.json").write_text("[1, 2]")
while not (kept / "models" / "end").exists():
    time.sleep(0.1)
"""


@pytest.fixture
def claim(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    """A claim of the namespace, on a folder of the node."""
    with claim_of(kubectl, namespace, "kept") as name:
        yield name


RESULT = """
import os, pathlib, time
kept = pathlib.Path(os.environ["DI_ARTIFACTS_DIR"])
(kept / "result").write_text(os.environ["DI_RANK"])
while os.environ["DI_RANK"] == "0" and not (kept / "end").exists():
    time.sleep(0.1)
"""


@pytest.mark.usefixtures("release", "shell")
@pytest.mark.proves(
    "artifacts.md#a-folder-for-each-pod", "sdk.md#the-variables-of-a-pod/di-artifacts-dir"
)
def test_each_pod_leaves_files_in_a_folder_of_its_own(
    kubectl: Kubectl,
    claim: str,
    *,
    namespace: str,
    python_image: str,
    tmp_path: Path,
    said: Callable[..., str],
) -> None:
    tasks = [
        task("learner", image=python_image, program=RESULT),
        task("collector", image=python_image, program=RESULT, replicas=2),
    ]
    for each in tasks:
        each["template"]["spec"]["containers"][0]["securityContext"] = {"runAsUser": 0}
    artifact = {"name": "results", "path": "/results", "persistentVolumeClaim": claim}
    spec = {"artifacts": [artifact], "cleanPodPolicy": "All"}
    kubectl.apply(job("leaves", namespace=namespace, tasks=tasks, **spec))

    def listed() -> set[tuple[str, str]]:
        rows = [line.split() for line in said("artifacts", "leaves").splitlines()[1:]]
        return {(row[0], row[-1]) for row in rows}

    pods = ["leaves-collector-0", "leaves-collector-1", "leaves-learner-0"]
    expected = {("/results/result", pod) for pod in pods}
    said("wait", "leaves", "--for", "phase=Running", "--timeout", "120")
    # While a pod runs, the files of those that have ended are listed too.
    wait_until(lambda: listed() == expected)
    said("cp", "leaves:/results/result", "running")
    assert (tmp_path / "running").read_text() == "0"
    command = ("exec", "--namespace", namespace, "leaves-learner-0", "--")
    # It sees its own files alone.
    assert kubectl(*command, "ls", "/results").split() == ["result"]
    kubectl(*command, "touch", "/results/end")
    said("wait", "leaves", "--for", "phase=Succeeded", "--timeout", "120")
    wait_until(lambda: not kubectl("get", "pods", "--namespace", namespace, "--output", "name"))

    assert listed() == {*expected, ("/results/end", "leaves-learner-0")}
    said("cp", "leaves:/results/result", "ended", "--pod", "leaves-collector-1")
    assert (tmp_path / "ended").read_text() == "2"
    said("cp", "leaves:/results", "all")
    assert sorted(each.name for each in (tmp_path / "all").iterdir()) == ["end", "result"]
    # Another job of the name finds nothing of it.
    said("delete", "leaves")
    tasks[0]["template"]["spec"]["containers"][0]["command"] = ["ls", "-A", "/results"]
    again = {"artifacts": [artifact]}
    kubectl.apply(job("leaves", namespace=namespace, tasks=tasks[:1], **again))
    said("wait", "leaves", "--for", "phase=Succeeded", "--timeout", "120")
    assert said("logs", "leaves") == ""


@pytest.mark.usefixtures("release", "shell")
@pytest.mark.proves("artifacts.md#a-directory-for-all-learners", "artifacts.md#list-and-copy")
def test_files_on_a_claim_are_copied_while_the_job_runs_and_after_its_end(
    kubectl: Kubectl,
    claim: str,
    *,
    namespace: str,
    python_image: str,
    tmp_path: Path,
    said: Callable[..., str],
) -> None:
    learner = task("learner", image=python_image, program=PROGRAM)
    # A folder of the node belongs to root.
    learner["template"]["spec"]["containers"][0]["securityContext"] = {"runAsUser": 0}
    spec = {"checkpoint": {"persistentVolumeClaim": claim}, "cleanPodPolicy": "All"}
    kubectl.apply(job("keeps", namespace=namespace, tasks=[learner], **spec))

    def listed() -> list[list[str]]:
        return [line.rsplit(maxsplit=4) for line in said("artifacts", "keeps").splitlines()[1:]]

    expected = [
        ["/checkpoint/curve.json", "6", "B", "kept", "learner"],
        ["/checkpoint/models/best one.pt", "7", "B", "kept", "learner"],
    ]
    said("wait", "keeps", "--for", "phase=Running", "--timeout", "120")
    wait_until(lambda: listed() == expected)
    said("cp", "keeps:/checkpoint/curve.json", ".")
    assert (tmp_path / "curve.json").read_text() == "[1, 2]"
    command = ("exec", "--namespace", namespace, "keeps-learner-0", "--")
    kubectl(*command, "touch", "/checkpoint/models/end")
    said("wait", "keeps", "--for", "phase=Succeeded", "--timeout", "120")
    wait_until(lambda: not kubectl("get", "pods", "--namespace", namespace, "--output", "name"))

    end = ["/checkpoint/models/end", "0", "B", "kept", "learner"]
    assert listed() == [*expected, end]
    said("cp", "keeps:/checkpoint/models", "models")
    assert (tmp_path / "models" / "best one.pt").read_text() == "weights"
    said("cp", "keeps:/checkpoint/models/best one.pt", ".")
    assert (tmp_path / "best one.pt").read_text() == "weights"
    # What reads is gone with the command.
    wait_until(lambda: not kubectl("get", "pods", "--namespace", namespace, "--output", "name"))
