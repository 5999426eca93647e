"""Templates of a coordinated job are judged field by field, as the API server judges a task's."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given

from di_api.crd.core_schema import as_one_value
from di_api.quantity import quantity_schema
from di_api.validation import validate_job
from di_api.validation.templates.core_types import template_errors
from tests.unit.api.jobs import Job, coordinated_job, with_template
from tests.unit.api.refusals import refused
from tests.unit.api.test_any_json import JSON

ROOT = Path(__file__).parents[4]

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


def test_a_template_of_a_real_manifest_is_accepted() -> None:
    assert list(template_errors("t", MANIFEST)) == []
    dated = {**MANIFEST, "metadata": {"creationTimestamp": "2022-01-01T00:00:00Z"}}
    for priority in (-(2**31), 2**31 - 1):
        changed = {**dated, "spec": {**MANIFEST["spec"], "priority": priority}}
        assert list(template_errors("t", changed)) == []


def container(**fields: Any) -> Job:
    return {"spec": {"containers": [{"name": "a", **fields}]}}


OF_ONE_VALUE = refused(
    {"t": container()},
    """
t.spec.containers[0].imagee: "x": unknown field; did you mean image?
t.metadata.lables: {}: unknown field; did you mean labels?
t.metadata.labels["a/b"]: 1: must be a string
t.spec.containers[0].env[0].name: 1: must be a string
t.spec.containers[0].ports[0].containerPort: "80": must be a whole number
t.spec.containers[0].ports[0].containerPort: true: must be a whole number
t.spec.containers[0].ports[0].containerPort: 2147483648: must be a number of 32 bits
t.spec.containers[0].ports[0].containerPort: -2147483649: must be a number of 32 bits
t.spec.containers[0].tty: "yes": must be true or false
t.spec.containers[0].env: {}: must be a list
t.spec.containers[0].resources: []: must be an object
t.spec.containers[0].resources.limits.cpu: 0.5: must be a whole number or a string
t.spec.containers[0].resources.requests.memory: "10GB": must be a quantity, such as 2, 500m or 1.5Gi
t.spec.containers[0].resources.limits["nvidia.com/gpu"]: "": must be a quantity, such as 2, 500m or
  1.5Gi
t.spec.overhead.memory: "9223372036854775808": must be at most 9223372036854775807
t.spec.overhead.memory: -1: must not be negative
t.spec.containers[0].imagePullPolicy: "Sometimes": must be one of Always, IfNotPresent, Never
t.spec.tolerations[0]: null: must be an object
""",
)
BAD = [
    *OF_ONE_VALUE,
    (
        "t.spec.containers[0].volumeMounts[0].mountPath: is required",
        {"t": container(volumeMounts=[{"name": "a"}])},
    ),
    # A schema must give this one a default, and the library has none.
    (
        "t.spec.containers[0].ports[0].containerPort: is required",
        {"t": container(ports=[{"name": "di-port"}])},
    ),
]


@pytest.mark.parametrize(("message", "bad"), BAD)
def test_a_bad_template_is_refused_with_the_field(message: str, bad: Job) -> None:
    assert [str(error) for error in template_errors("t", bad["t"])] == [message]


def test_each_role_is_validated_and_no_error_is_repeated() -> None:
    wrong = {"spec": {"containers": [{"imagee": "x"}], "restartPolicy": "Maybe"}}
    roles = ("coordinator", "collector", "learner")
    job = coordinated_job(coordinated={role: {"template": wrong} for role in roles})
    paths = [error.path for error in validate_job(job)]
    assert len(paths) == len(set(paths))
    for role in roles:
        spec = f"spec.coordinated.{role}.template.spec"
        assert {f"{spec}.containers[0].name", f"{spec}.restartPolicy"} <= set(paths)


def test_templates_of_tasks_are_validated_field_by_field() -> None:
    wrong = with_template({"overhead": {"cpu": "1e20"}, "containers": [{"name": "a", "imagee": 1}]})
    assert [str(error) for error in validate_job(wrong)] == [
        "spec.tasks[0].template.spec.containers[0].imagee: 1: unknown field; did you mean image?",
        'spec.tasks[0].template.spec.overhead.cpu: "1e20": must be at most 9223372036854775807',
    ]


def test_volumes_of_a_coordinated_job_are_validated() -> None:
    job = coordinated_job(volumes=[{"name": "a", "emptyDirr": {}}, {"hostPath": {}}])
    assert [error.path for error in validate_job(job)] == [
        "spec.volumes[0].emptyDirr",
        "spec.volumes[1].name",
        "spec.volumes[1].hostPath.path",
    ]


@given(JSON)
def test_errors_of_any_template_can_be_encoded(value: Any) -> None:
    for each in (value, {"spec": value}, container(env=value), {"metadata": value, "spec": value}):
        for error in template_errors("t", each):
            assert str(error).encode()


def test_a_template_of_unknown_fields_is_validated_in_bounded_time() -> None:
    wrong = container(**{f"imag{number}": 1 for number in range(200_000)})
    job = coordinated_job(coordinated={"coordinator": {"template": wrong}})
    started = time.process_time()
    assert len(validate_job(job)) <= 200
    # With a suggestion for each word it would take minutes.
    assert time.process_time() - started < 10


CRD = yaml.safe_load((ROOT / "charts/di-orchestrator/files/dijobs-crd.yaml").read_text())
SPEC = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
STRICT = json.loads((ROOT / "libraries/api/src/di_api/data/pod_template.json").read_text())


def test_the_template_schema_is_that_of_the_tasks_in_the_crd() -> None:
    schema = SPEC["tasks"]["items"]["properties"]["template"]
    assert {k: v for k, v in schema.items() if k != "description"} == as_one_value(STRICT)


def test_lists_of_a_task_have_no_keys_that_each_status_write_would_compare() -> None:
    assert '"x-kubernetes-list-map-keys"' in json.dumps(STRICT)
    assert '"x-kubernetes-list-map-keys"' not in json.dumps(SPEC["tasks"])
    assert SPEC["tasks"]["x-kubernetes-list-type"] == "atomic"


@pytest.mark.parametrize("role", ["coordinator", "collector", "learner"])
def test_loose_templates_in_the_crd_have_what_the_services_read(role: str) -> None:
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


def test_resources_of_replicas_are_quantities_as_in_a_template() -> None:
    resources = SPEC["coordinated"]["properties"]["replicas"]["items"]["properties"]["resources"]
    assert resources["additionalProperties"] == quantity_schema()
