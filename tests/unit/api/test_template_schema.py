"""Templates of a coordinated job are judged field by field, as the API server judges a task's."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given

from di_api.crd.core_schema import quantity_schema
from di_api.validation import validate_job
from di_api.validation.core_types import template_errors
from tests.unit.api.jobs import template, with_template
from tests.unit.api.test_any_json import JSON
from tests.unit.api.test_coordinated import coordinated_job

ROOT = Path(__file__).parents[3]
Job = dict[str, Any]

MANIFEST = yaml.safe_load("""
metadata:
  creationTimestamp: null
  labels: {app: cartpole}
spec:
  restartPolicy: Never
  nodeName: null
  containers:
  - name: di-container
    image: example/di-engine
    imagePullPolicy: Always
    env:
    - {name: PYTHONUNBUFFERED, value: "1"}
    - name: POD_IP
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    command: [/bin/bash, -c]
    args: ["ding -m dist --module config"]
    ports:
    - {name: di-port, containerPort: 22273}
    resources:
      limits: {cpu: 2, memory: 3Gi, nvidia.com/gpu: "1"}
    livenessProbe:
      httpGet: {path: /, port: di-port}
    volumeMounts:
    - {name: work-dir, mountPath: /ding}
  volumes:
  - name: cache
    emptyDir: {medium: Memory, sizeLimit: 128Mi}
""")


def test_a_template_of_the_field_is_taken() -> None:
    assert list(template_errors("t", MANIFEST)) == []
    dated = {**MANIFEST, "metadata": {"creationTimestamp": "2022-01-01T00:00:00Z"}}
    assert list(template_errors("t", dated)) == []


def container(**fields: Any) -> Job:
    return {"spec": {"containers": [{"name": "a", **fields}]}}


BAD = {
    "an unknown field, with the one meant": (
        container(imagee="x"),
        't.spec.containers[0].imagee: "x": unknown field; did you mean image?',
    ),
    "an unknown field of metadata": (
        {"metadata": {"lables": {}}, **template()},
        "t.metadata.lables: {}: unknown field; did you mean labels?",
    ),
    "a number for a string": (
        container(env=[{"name": "A", "value": 1}]),
        "t.spec.containers[0].env[0].value: 1: must be a string",
    ),
    "a string for a number": (
        container(ports=[{"containerPort": "80"}]),
        't.spec.containers[0].ports[0].containerPort: "80": must be a whole number',
    ),
    "true for a number": (
        container(ports=[{"containerPort": True}]),
        "t.spec.containers[0].ports[0].containerPort: true: must be a whole number",
    ),
    "a number past 32 bits": (
        container(ports=[{"containerPort": 2**31}]),
        f"t.spec.containers[0].ports[0].containerPort: {2**31}: must be a number of 32 bits",
    ),
    "a string for a boolean": (
        container(tty="yes"),
        't.spec.containers[0].tty: "yes": must be true or false',
    ),
    "an object for a list": (
        container(env={"A": "1"}),
        "t.spec.containers[0].env: an object: must be a list",
    ),
    "a list for an object": (
        container(resources=[]),
        "t.spec.containers[0].resources: []: must be an object",
    ),
    "a fraction for a quantity": (
        container(resources={"limits": {"cpu": 0.5}}),
        "t.spec.containers[0].resources.limits.cpu: 0.5: must be a whole number or a string",
    ),
    "bytes": (
        container(resources={"requests": {"memory": "10GB"}}),
        't.spec.containers[0].resources.requests.memory: "10GB": must be a quantity, such as 2, '
        "500m or 1.5Gi",
    ),
    "an empty quantity": (
        container(resources={"limits": {"nvidia.com/gpu": ""}}),
        't.spec.containers[0].resources.limits["nvidia.com/gpu"]: "": must be a quantity, such as '
        "2, 500m or 1.5Gi",
    ),
    "a quantity above all": (
        {"spec": {**container()["spec"], "overhead": {"memory": "9223372036854775808"}}},
        't.spec.overhead.memory: "9223372036854775808": must be at most 9223372036854775807',
    ),
    "a negative quantity": (
        {
            "spec": {
                **container()["spec"],
                "volumes": [{"name": "a", "emptyDir": {"sizeLimit": -1}}],
            }
        },
        "t.spec.volumes[0].emptyDir.sizeLimit: -1: must not be negative",
    ),
    "another value than there are": (
        container(imagePullPolicy="Sometimes"),
        't.spec.containers[0].imagePullPolicy: "Sometimes": must be one of Always, IfNotPresent, '
        "Never",
    ),
    "a field that is needed": (
        container(volumeMounts=[{"name": "a"}]),
        "t.spec.containers[0].volumeMounts[0].mountPath: is required",
    ),
    "a field that is needed, though a schema must give it a default": (
        container(ports=[{"name": "di-port"}]),
        "t.spec.containers[0].ports[0].containerPort: is required",
    ),
    "a label that is no string": (
        {"metadata": {"labels": {"a/b": 1}}, **template()},
        't.metadata.labels["a/b"]: 1: must be a string',
    ),
    "null in a list": (
        {"spec": {"containers": [{"name": "a"}], "tolerations": [None]}},
        "t.spec.tolerations[0]: null: must be an object",
    ),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD)
def test_a_bad_template_is_refused_with_the_field(bad: Job, message: str) -> None:
    assert [str(error) for error in template_errors("t", bad)] == [message]


def test_every_role_is_judged_and_nothing_is_said_twice() -> None:
    wrong = {"spec": {"containers": [{"imagee": "x"}], "restartPolicy": "Maybe"}}
    roles = ("coordinator", "collector", "learner")
    job = coordinated_job(coordinated={role: {"template": wrong} for role in roles})
    paths = [error.path for error in validate_job(job)]
    assert len(paths) == len(set(paths))
    for role in roles:
        spec = f"spec.coordinated.{role}.template.spec"
        assert {f"{spec}.containers[0].name", f"{spec}.restartPolicy"} <= set(paths)


def test_templates_of_tasks_are_judged_as_well() -> None:
    wrong = with_template({"overhead": {"cpu": "1e20"}, "containers": [{"name": "a", "imagee": 1}]})
    assert [str(error) for error in validate_job(wrong)] == [
        "spec.tasks[0].template.spec.containers[0].imagee: 1: unknown field; did you mean image?",
        'spec.tasks[0].template.spec.overhead.cpu: "1e20": must be at most 9223372036854775807',
    ]


def test_volumes_of_a_coordinated_job_are_judged_too() -> None:
    job = coordinated_job(volumes=[{"name": "a", "emptyDirr": {}}, {"hostPath": {}}])
    assert [error.path for error in validate_job(job)] == [
        "spec.volumes[0].emptyDirr",
        "spec.volumes[1].name",
        "spec.volumes[1].hostPath.path",
    ]


@given(JSON)
def test_any_value_gets_words_that_can_be_sent(value: Any) -> None:
    for each in (value, {"spec": value}, container(env=value), {"metadata": value, "spec": value}):
        for error in template_errors("t", each):
            assert str(error).encode()


def test_a_template_wrong_in_every_word_is_judged_in_bounded_time() -> None:
    wrong = container(**{f"imag{number}": 1 for number in range(200_000)})
    job = coordinated_job(coordinated={"coordinator": {"template": wrong}})
    started = time.process_time()
    assert len(validate_job(job)) <= 200
    # With a suggestion for each word it would take minutes.
    assert time.process_time() - started < 10


CRD = yaml.safe_load((ROOT / "charts/di-orchestrator/files/dijobs-crd.yaml").read_text())
SPEC = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
STRICT = json.loads((ROOT / "services/api/src/di_api/data/pod_template.json").read_text())


def test_it_is_the_schema_of_the_tasks() -> None:
    schema = SPEC["tasks"]["items"]["properties"]["template"]
    assert {k: v for k, v in schema.items() if k != "description"} == STRICT


@pytest.mark.parametrize("role", ["coordinator", "collector", "learner"])
def test_the_definition_has_of_loose_templates_what_the_services_read(role: str) -> None:
    loose = SPEC["coordinated"]["properties"][role]["properties"]["template"]
    spec = loose["properties"]["spec"]
    containers = spec["properties"]["containers"]
    container = containers["items"]
    strict = STRICT["properties"]["spec"]["properties"]["containers"]["items"]["properties"]
    assert (loose["required"], spec["required"]) == (["spec"], ["containers"])
    assert (containers["minItems"], container["required"]) == (1, ["name"])
    for schema in (loose, spec, container, container["properties"]["ports"]["items"]):
        assert schema["x-kubernetes-preserve-unknown-fields"] is True
    limits = container["properties"]["resources"]["properties"]["limits"]
    assert limits == strict["resources"]["properties"]["limits"] | {"nullable": True}
    # A default would become part of the user's template.
    assert "default" in strict["ports"]["items"]["properties"]["containerPort"]
    assert container["properties"]["ports"]["items"]["properties"]["containerPort"] == {
        "type": "integer",
        "format": "int32",
    }


def test_amounts_of_replicas_are_quantities_as_in_a_template() -> None:
    resources = SPEC["coordinated"]["properties"]["replicas"]["items"]["properties"]["resources"]
    assert resources["additionalProperties"] == quantity_schema()
