"""The transcripts of docs/reference/cli.md, run one after the other in one cluster.

Blocks marked `console` are run; `...` at the end of a block stands for more.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from di_cli.exit_codes import ExitCode
from tests.fakes.api_server import Object
from tests.unit.cli.conftest import (
    EVENTS,
    JOBS,
    PODS,
    Di,
    condition,
    ends,
    install,
    job,
    pod,
    terminated,
)
from tests.unit.cli.installation import NOW

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/reference/cli.md"
_GPU = {"nvidia.com/gpu": "1"}
_HINTED = re.compile(r"\bdi ([a-z][a-z-]*(?: [^,;:()\n?]*)?)")
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.proves(
    "cli.md#seeing-what-there-is",
    "cli.md#why",
    "cli.md#before-submitting",
    "cli.md#sweeps",
    "cli.md#converting",
    "cli.md#logs",
    "cli.md#submitting-and-changing",
    "cli.md#doctor",
)
def test_the_documents_transcripts_match_the_commands(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("di_cli.survey.local_now", lambda: NOW)
    _fill(di, tmp_path)
    text = DOCUMENT.read_text()
    commands = 0
    for block in _BLOCK.findall(text):
        for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, expected = entry.partition("\n")
            program, *words = shlex.split(line)
            assert program == "di"
            said = di(*words)
            shown = [each.rstrip() for each in (said.out + said.err).splitlines()]
            wanted = [each.rstrip() for each in expected.rstrip("\n").splitlines()]
            if wanted[-1:] == ["..."]:
                wanted.pop()
                shown = shown[: len(wanted)]
            assert shown == wanted, "\n".join([f"$ {line}", *shown])
            commands += 1
    assert commands > 15


def test_the_hints_of_the_documents_transcripts_work(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command of di that a transcript suggests is run in the cluster of the transcript."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("di_cli.survey.local_now", lambda: NOW)
    shown = "\n".join(_BLOCK.findall(DOCUMENT.read_text()))
    shown = re.sub(r"^\$ .*$", "", shown, flags=re.MULTILINE)
    hints = re.findall(r"^ *(?:try|next|or): (.+)$", shown, re.MULTILINE)
    found = {each.strip() for hint in hints for each in _HINTED.findall(hint)}
    found |= {f"why {name}" for name in re.findall(r"\bdi why (\S+)$", shown, re.MULTILINE)}
    assert len(found) > 3, found
    for words in sorted(found):
        # The user gives the file, and the shell what is behind the arrow.
        command = words.replace("FILE", "job.yaml").partition(" > ")[0]
        _fill(di, tmp_path)
        said = di(*shlex.split(command))
        assert said.code == ExitCode.DONE, (words, said.err)


def _fill(di: Di, folder: Path) -> None:
    """A cluster with a job that runs, one that waits and one that failed."""
    began = {"startTime": "2026-03-01T09:00:00Z"}
    told = ends(6620, earliest=4810, latest=9020)
    di.job("grpo-7b", restarts=0, **began, expectedCompletion=told)
    for name, gpus in (("gpu-1", 8), ("gpu-2", 4)):
        di.node(name, gpus)
    web = pod("web", "learner", 0, 0)
    web["metadata"] |= {"name": "web", "namespace": "web", "uid": "uid-web", "ownerReferences": []}
    web["spec"] = {"nodeName": "gpu-2", "containers": [{"resources": {"limits": _GPU}}]}
    di.world.put("/api/v1/namespaces/web/pods/web", web)
    for index, (task, rank) in enumerate((("learner", 0), ("collector", 1), ("collector", 2))):
        name = f"grpo-7b-{task}-{max(0, rank - 1)}"
        _put_measured(di, pod("grpo-7b", task, max(0, rank - 1), rank))
        di.world.logs[name] = [
            f"2026-03-01T11:59:5{index}Z step {rank}",
            f"2026-03-01T11:59:5{index + 3}Z step {rank + 10}",
        ]
    message = (
        'pods "halfchee-learner-0" is forbidden: exceeded quota: team, requested: '
        "pods=1, used: pods=3, limited: pods=3"
    )
    waits = [condition("Pending", "QuotaExceeded", message, at="11:48:00")]
    di.job("halfchee", "Pending", conditions=waits, restarts=0, progress={}, profilings={})
    _failed(di)
    install(di)
    about = {"involvedObject": {"kind": "DIJob", "name": "cartpole"}}
    for reason, message, at, kind in (
        ("JobRunning", "all 3 pods are ready", "11:02:10", "Normal"),
        ("JobFailed", "1 pod failed, all 3 restarts are used", "11:19:00", "Warning"),
    ):
        event = {"type": kind, "reason": reason, "message": message, **about}
        path = f"{EVENTS}/{reason}"
        seen = {"metadata": {"name": reason}, "lastTimestamp": f"2026-03-01T{at}Z"}
        di.world.put(path, {**event, **seen})
    (folder / "job.yaml").write_text(
        "apiVersion: diengine.opendilab.org/v2alpha1\nkind: DIJob\nmetadata: {name: pong}\n"
        "spec: {tasks: [{type: learner, template: {spec: {containers: [{name: c}]}}}]}\n"
    )
    (folder / "sweep.yaml").write_text(
        "kind: DISweep\nmetadata: {name: pong}\nspec:\n  objective: {metric: episodeReturn}\n"
        "  maxTrials: 64\n  parameters:\n"
        "  - {name: lr, argument: --lr, logUniform: {min: 0.0001, max: 0.1}}\n  template: {spec: "
        "{tasks: [{type: learner, template: {spec: {containers: [{name: c, image: i}]}}}]}}\n"
    )
    limits = "{resources: {limits: {nvidia.com/gpu: 8}}, name: c}"
    (folder / "big.yaml").write_text(
        "apiVersion: diengine.opendilab.org/v2alpha1\nkind: DIJob\nmetadata: {name: big}\n"
        "spec: {preemptible: true, tasks: [{type: learner, minReplicas: 1, maxReplicas: 2,\n"
        f"  template: {{spec: {{containers: [{limits}]}}}}}}]}}\n"
    )
    (folder / "pytorchjob.yaml").write_text(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: mnist}\n"
        "spec: {elasticPolicy: {rdzvId: a}, pytorchReplicaSpecs: {Worker: {template: {spec: {\n"
        "  containers: [{name: pytorch}]}}}}}\n"
    )
    (folder / "service.yaml").write_text("apiVersion: ray.io/v1\nkind: RayService\n")
    settings = {"DI_OPERATOR_POLICY": "goodput"}
    di.world.put(
        "/api/v1/namespaces/di-system/configmaps/di-operator",
        {"metadata": {"name": "di-operator"}, "data": settings},
    )
    shares = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/rl/pods/*/DCGM_FI_DEV_GPU_UTIL"
    share = {"describedObject": {"name": "grpo-7b-learner-0"}, "value": "87"}
    di.world.put(shares, {"metadata": {"name": "all"}, "items": [share]})


def _put_measured(di: Di, body: Object) -> None:
    """A pod with requests and a memory limit, and what it uses by metrics-server."""
    metadata, (container,) = body["metadata"], body["spec"]["containers"]
    is_learner = "learner" in metadata["name"]
    memory = "16Gi" if is_learner else "2Gi"
    requests = {"cpu": "4" if is_learner else "1", "memory": memory}
    resources = container.setdefault("resources", {})
    resources["requests"] = requests
    resources.setdefault("limits", {})["memory"] = memory
    di.world.put(f"{PODS}/{metadata['name']}", body)
    usage = {"cpu": "3850m", "memory": "9Gi"} if is_learner else {"cpu": "640m", "memory": "1.25Gi"}
    named = {"metadata": {key: metadata[key] for key in ("name", "namespace", "labels")}}
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/rl/pods/{metadata['name']}"
    di.world.put(path, {**named, "containers": [{"usage": usage}]})


def _failed(di: Di) -> None:
    message = (
        "container di-container was OOM-killed with 4Gi of memory, the most that growMemory "
        "allows; pod cartpole-learner-0 failed first: exit code 137 (OOMKilled)"
    )
    failed = [condition("Failed", "OOMLimit", message, at="11:19:00")]
    progress = {"step": 21, "totalSteps": 100}
    body = job("cartpole", "Failed", conditions=failed, restarts=3, progress=progress)
    di.world.put(f"{JOBS}/cartpole", body)
    name = "cartpole-learner-0"
    status = terminated(137, "OOMKilled", "11:18:58")
    di.world.put(f"{PODS}/{name}", pod("cartpole", "learner", 0, 0, **status))
    di.world.logs[name] = [
        '2026-03-01T11:18:57Z   File "learner.py", line 88, in push',
        "2026-03-01T11:18:58Z MemoryError",
    ]
