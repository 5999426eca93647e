"""The API server takes the CRD, and by it refuses what is wrong with a path to the field."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from di_api.crd.__main__ import main
from di_kube.config import KubeConfig
from tests.integration.conftest import CRD_FILE, ApiServer, definition, install_crd
from tests.waiting import wait_until

TEMPLATE = {
    "metadata": {"labels": {"team": "rl"}},
    "spec": {
        "containers": [
            {
                "name": "di-container",
                "image": "busybox",
                "ports": [{"name": "di-port", "containerPort": 22270}],
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "di-port"}},
            }
        ]
    },
}
GOOD: dict[str, Any] = {
    "apiVersion": "diengine.opendilab.org/v2alpha1",
    "kind": "DIJob",
    "metadata": {"name": "cartpole"},
    "spec": {
        "volumes": [{"name": "data", "emptyDir": {}}],
        "tasks": [
            {"type": "learner", "template": TEMPLATE},
            {
                "type": "none",
                "name": "buffer",
                "replicas": 2,
                "minReplicas": 1,
                "maxReplicas": 4,
                "dependsOn": ["learner"],
                "template": TEMPLATE,
            },
        ],
    },
}

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def kubectl(api_server: ApiServer) -> Kubectl:
    """Runs kubectl against the test's API server; `stdin` is sent as JSON."""

    def run(*arguments: str, stdin: object = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                str(api_server.binary("kubectl")),
                f"--kubeconfig={api_server.kubeconfig}",
                "--request-timeout=240s",
                *arguments,
            ],
            input=json.dumps(stdin),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


def apply(kubectl: Kubectl, namespace: str, body: object) -> subprocess.CompletedProcess[str]:
    return kubectl("apply", "-n", namespace, "-f", "-", stdin=body)


def spec_with(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    job = deepcopy(GOOD)
    change(job["spec"])
    return job


@pytest.mark.proves("dijob.md#the-definition-itself")
def test_plain_client_side_apply_installs_it(kubectl: Kubectl, crd: str) -> None:
    applied = kubectl("apply", "-f", str(CRD_FILE))
    assert applied.returncode == 0, applied.stderr
    assert kubectl("wait", "--for=condition=Established", "--timeout=240s", f"crd/{crd}").stdout
    found = json.loads(kubectl("get", "crd", crd, "-o", "json").stdout)
    conditions = {c["type"]: c["status"] for c in found["status"]["conditions"]}
    assert conditions["Established"] == "True"
    # Its presence would mean that part of the schema is not enforced.
    assert "NonStructuralSchema" not in conditions


def test_the_generated_part_is_that_of_this_api_server(
    kubectl: Kubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    openapi = tmp_path / "v1.json"
    openapi.write_text(kubectl("get", "--raw", "/openapi/v3/api/v1").stdout)
    code = main(["--openapi", str(openapi), "--check", str(CRD_FILE)])
    assert (code, capsys.readouterr().err) == (0, "")


@pytest.mark.usefixtures("crd")
@pytest.mark.proves("jobs-in-git.md#without-the-webhook")
def test_a_good_job_is_taken_and_defaulted(kubectl: Kubectl, namespace: str) -> None:
    applied = apply(kubectl, namespace, GOOD)
    assert applied.returncode == 0, applied.stderr
    spec = json.loads(kubectl("get", "dijob", "cartpole", "-n", namespace, "-o", "json").stdout)[
        "spec"
    ]
    learner, buffer = spec.pop("tasks")
    assert spec == {
        "priority": "normal",
        "cleanPodPolicy": "Running",
        "preemptible": False,
        "backoffLimit": 3,
        "suspend": False,
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    # The webhook fills it in, and keeps what a scaler has made of it.
    assert "replicas" not in learner
    assert buffer["replicas"] == 2
    # Nothing of the template was dropped on the way.
    assert learner["template"]["metadata"] == TEMPLATE["metadata"]
    container = learner["template"]["spec"]["containers"][0]
    assert container["livenessProbe"] == {"httpGet": {"path": "/", "port": "di-port"}}
    assert container["resources"] == {"limits": {"cpu": 1, "memory": "1Gi"}}
    assert container["ports"][0]["containerPort"] == 22270


def first(spec: dict[str, Any]) -> dict[str, Any]:
    task: dict[str, Any] = spec["tasks"][0]
    return task


BAD = {
    "a typo in the template": (
        lambda s: first(s)["template"]["spec"]["containers"][0].update(imagee="busybox"),
        'unknown field "spec.tasks[0].template.spec.containers[0].imagee"',
    ),
    "a task without a template": (
        lambda s: first(s).pop("template"),
        "spec.tasks[0].template: Required value",
    ),
    "no replicas": (
        lambda s: first(s).update(replicas=0),
        "spec.tasks[0].replicas in body should be greater than or equal to 1",
    ),
    "replicas as text": (
        lambda s: first(s).update(replicas="two"),
        'spec.tasks[0].replicas in body must be of type integer: "string"',
    ),
    "an unknown type": (
        lambda s: first(s).update(type="lerner"),
        'spec.tasks[0].type: Unsupported value: "lerner": supported values: "learner", '
        '"collector", "evaluator", "none"',
    ),
    "a task name of 64 characters": (
        lambda s: s["tasks"][1].update(name="n" * 64),
        "spec.tasks[1].name: Too long: may not be more than 63",
    ),
}


@pytest.mark.usefixtures("crd")
@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_kubectl_apply_is_refused(
    kubectl: Kubectl, namespace: str, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    refused = apply(kubectl, namespace, spec_with(change))
    assert refused.returncode == 1
    assert message in refused.stderr
    assert kubectl("get", "dijobs", "-n", namespace, "-o", "name").stdout == ""


@pytest.mark.usefixtures("crd")
def test_explain_tells_about_every_field(kubectl: Kubectl) -> None:
    spec = kubectl("explain", "dijob.spec").stdout
    assert "Restarts allowed before the job is Failed" in spec
    assert "enum: Running, All, None" in spec
    assert "Number of replicas" in kubectl("explain", "dijob.spec.tasks.replicas").stdout


STATUS: dict[str, Any] = {
    "phase": "Running",
    "conditions": [
        {
            "type": "Running",
            "status": "True",
            "reason": "JobRunning",
            "message": "all 3 pods are ready",
            "lastUpdateTime": "2030-01-01T00:00:00Z",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
    ],
    "replicas": 3,
    "readyReplicas": 2,
    "restarts": 1,
    "reschedules": 4,
    "replicaAttempts": {"buffer": {"0": 2}},
    "taskStatus": {"learner": {"Running": 1}, "buffer": {"Running": 1, "Pending": 1}},
    "completedIndexes": {"buffer": "0-3,7"},
    "allocation": ["node-1", "node-2", "node-2"],
    "failures": [
        {
            "uid": "0f3c",
            "pod": "cartpole-learner-0",
            "exitCode": 137,
            "reason": "OOMKilled",
            "time": "2030-01-01T00:00:00Z",
        }
    ],
    "idleSince": "2030-01-01T00:00:00Z",
    "profilings": {"reward": {"mean": 475.5}, "steps": [1, 2]},
    "progress": {
        "step": 6200,
        "totalSteps": 10000,
        "percent": "62%",
        "phase": "evaluation",
        "reportedAt": "2020-01-01T00:00:00Z",
        "progressedAt": "2020-01-01T00:00:00Z",
        "waitingAt": "2020-01-01T00:00:00Z",
        "gpuIdleAt": "2020-01-01T00:00:00Z",
        "phaseAt": "2020-01-01T00:00:00Z",
        "rejected": "envSteps: must be a number",
    },
    "expectedCompletion": {
        "earliest": "2029-12-31T00:00:00Z",
        "expected": "2030-01-01T00:00:00Z",
        "latest": "2030-01-02T00:00:00Z",
    },
    "pace": {"since": "2030-01-01T00:00:00Z", "step": 62.5},
    "startTime": "2030-01-01T00:00:00Z",
    "completionTimestamp": "2030-01-01T00:00:00Z",
}


@pytest.mark.proves("dijob.md#status/*")
@pytest.mark.usefixtures("crd")
def test_the_whole_status_is_kept_and_shown(kubectl: Kubectl, namespace: str) -> None:
    assert apply(kubectl, namespace, GOOD).returncode == 0
    job = ("dijob", "cartpole", "-n", namespace)
    patch = json.dumps({"status": STATUS})
    patched = kubectl("patch", *job, "--subresource=status", "--type=merge", "-p", patch)
    assert patched.returncode == 0, patched.stderr
    found = json.loads(kubectl("get", *job, "-o", "json").stdout)
    assert found["status"] == STATUS
    # What the status holds is no new generation of what was asked for.
    assert found["metadata"]["generation"] == 1
    headings, row = (
        line.split() for line in kubectl("get", *job, "-o", "wide").stdout.splitlines()
    )
    assert headings == [
        *("NAME", "PHASE", "READYREPLICAS", "REPLICAS", "RESTARTS", "RESCHEDULES"),
        *("PROGRESS", "LASTREPORT", "AGE", "EXPECTEDEND", "REASON"),
    ]
    assert row[:7] == ["cartpole", "Running", "2", "3", "1", "4", "62%"]
    # Years, in whatever way kubectl writes them; and of a time to come it would write none.
    assert "y" in row[7]
    assert row[9:11] == ["2030-01-01T00:00:00Z", "JobRunning"]
    assert kubectl("wait", *job, "--for=condition=Running", "--timeout=240s").returncode == 0


@pytest.mark.usefixtures("crd")
def test_controllers_apply_conditions_of_different_types_without_a_conflict(
    kubectl: Kubectl, namespace: str
) -> None:
    assert apply(kubectl, namespace, GOOD).returncode == 0
    job = {key: GOOD[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": "cartpole"}}
    for kind in ("Running", "example.org/Checked"):
        condition = {**STATUS["conditions"][0], "type": kind}
        applied = kubectl(
            *("apply", "--server-side", f"--field-manager={kind}", "--subresource=status"),
            *("-n", namespace, "-f", "-"),
            stdin={**job, "status": {"conditions": [condition]}},
        )
        assert applied.returncode == 0, applied.stderr
    found = json.loads(kubectl("get", "dijob", "cartpole", "-n", namespace, "-o", "json").stdout)
    types = [condition["type"] for condition in found["status"]["conditions"]]
    assert sorted(types) == ["Running", "example.org/Checked"]


@pytest.mark.usefixtures("crd")
def test_a_variable_that_a_pod_may_have_twice_is_taken_twice(
    kubectl: Kubectl, namespace: str
) -> None:
    variables = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    job = spec_with(lambda s: s["tasks"][1].update(template=deepcopy(TEMPLATE)))
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"] = variables
    applied = apply(kubectl, namespace, job)
    assert applied.returncode == 0, applied.stderr
    found = json.loads(kubectl("get", "dijob", "cartpole", "-n", namespace, "-o", "json").stdout)
    assert found["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"] == variables


@pytest.mark.usefixtures("crd")
def test_a_job_cannot_be_created_with_a_status(kubectl: Kubectl, namespace: str) -> None:
    assert apply(kubectl, namespace, GOOD | {"status": STATUS}).returncode == 0
    found = json.loads(kubectl("get", "dijob", "cartpole", "-n", namespace, "-o", "json").stdout)
    assert "status" not in found


@pytest.mark.usefixtures("crd")
def test_an_unknown_phase_is_refused(kubectl: Kubectl, namespace: str) -> None:
    assert apply(kubectl, namespace, GOOD).returncode == 0
    job = ("dijob", "cartpole", "-n", namespace)
    patch = json.dumps({"status": {"phase": "Done"}})
    refused = kubectl("patch", *job, "--subresource=status", "--type=merge", "-p", patch)
    assert 'status.phase: Unsupported value: "Done"' in refused.stderr


GROUP = "ratchet.diengine.opendilab.org"


def of_other_group(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The CRD with a changed spec, under a group of its own: all tests share the real one."""
    body: dict[str, Any] = definition()
    body["metadata"]["name"] = f"dijobs.{GROUP}"
    body["spec"]["group"] = GROUP
    body["spec"]["names"] = {"plural": "dijobs", "kind": "DIJob", "listKind": "DIJobList"}
    newest = next(v for v in body["spec"]["versions"] if v["storage"])
    body["spec"]["versions"] = [newest]
    change(newest["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return body


def stricter(spec: dict[str, Any]) -> None:
    task = spec["properties"]["tasks"]["items"]["properties"]
    container = task["template"]["properties"]["spec"]["properties"]["containers"]["items"]
    resources = container["properties"]["resources"]["properties"]["limits"]
    spec["properties"]["group"]["pattern"] = "^[a-z]+$"
    spec["properties"]["priority"]["enum"] = ["normal"]
    task["replicas"]["maximum"] = 2
    task["maxReplicas"]["maximum"] = 8
    resources["additionalProperties"]["pattern"] = "^[0-9]+(Mi|Gi)?$"
    rule = {"rule": "self < 4", "message": "too many restarts"}
    spec["properties"]["backoffLimit"]["x-kubernetes-validations"] = [rule]


def test_a_stored_job_that_a_stricter_schema_would_refuse_can_still_be_written(
    kubectl: Kubectl, kube_config: KubeConfig, namespace: str
) -> None:
    job = (f"dijobs.{GROUP}", "cartpole", "-n", namespace)

    def patch(body: object, *options: str) -> subprocess.CompletedProcess[str]:
        kind = "merge" if isinstance(body, dict) else "json"
        return kubectl("patch", *job, f"--type={kind}", "-p", json.dumps(body), *options)

    old = spec_with(
        lambda s: (
            s.update(group="A 1", priority="high", backoffLimit=5),
            s["tasks"][1].update(maxReplicas=100),
            s["tasks"][0]["template"]["spec"]["containers"][0].update(
                resources={"limits": {"memory": "1.5Gi"}}
            ),
        )
    )
    new = {**old, "apiVersion": f"{GROUP}/v2alpha1"}
    asyncio.run(install_crd(kube_config, of_other_group(lambda _: None)))
    try:
        made = apply(kubectl, namespace, new)
        assert made.returncode == 0, made.stderr
        asyncio.run(install_crd(kube_config, of_other_group(stricter)))
        again = {**new, "metadata": {"name": "again"}}

        def is_strict() -> bool:
            refused = apply(kubectl, namespace, again)
            kubectl("delete", f"dijobs.{GROUP}", "again", "-n", namespace, "--ignore-not-found")
            return "spec.tasks[1].maxReplicas" in refused.stderr

        wait_until(is_strict, what="the stricter schema to hold")
        for body, *options in (
            ({"status": STATUS}, "--subresource=status"),
            ({"status": {"phase": "Restarting"}}, "--subresource=status"),
            ({"metadata": {"labels": {"team": "rl"}}},),
            ({"metadata": {"finalizers": ["example.org/keep"]}},),
            ({"metadata": {"finalizers": None}},),
            ({"spec": {"suspend": True}},),
        ):
            done = patch(body, *options)
            assert done.returncode == 0, done.stderr
        refused = patch({"spec": {"group": "B 2"}})
        assert "spec.group" in refused.stderr
        assert "priority" not in refused.stderr
        # The tasks are one value to the API server: who changes one has to put all of them right.
        refused = patch([{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 2}])
        assert "spec.tasks[1].maxReplicas" in refused.stderr
    finally:
        kubectl("delete", f"crd/dijobs.{GROUP}", "--ignore-not-found")
