"""XGBoostJobs, PaddleJobs and JAXJobs become DIJobs with one process group."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.validation import validate_job
from tests.unit.cli.convert.manifests import (
    Object,
    convert_one,
    lost,
    manifests,
    outcome,
    pods,
    pods_of,
    roles,
    run_policy,
    some,
    template,
)

_KINDS = {
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost", "xgboostjob-port"),
    "PaddleJob": ("paddleReplicaSpecs", "paddle", "master"),
    "JAXJob": ("jaxReplicaSpecs", "jax", "jaxjob-port"),
}
_ROLES = {"JAXJob": ("Worker",)}


def job(kind: str, role: Object, **spec: Any) -> Object:
    """A job of three pods, whose roles have the same template and fields."""
    field, container, port = _KINDS[kind]
    ports = [{"name": port, "containerPort": 9991}]
    main = {"name": container, "image": "train", "ports": ports}
    each = {"template": {"spec": {"containers": [main]}}, **role}
    masters = {"Master": each} if "Master" in _roles(kind) else {}
    specs = {field: {**masters, "Worker": {**each, "replicas": 3 - len(masters)}}}
    top = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "x"}}
    return {**top, "spec": {**specs, **spec}}


@pytest.mark.proves("from-other-operators.md#xgboostjob", "from-other-operators.md#paddlejob")
@pytest.mark.proves("from-other-operators.md#jaxjob")
@pytest.mark.parametrize(
    ("kind", "action"),
    [("XGBoostJob", "FailJob"), ("PaddleJob", "RestartTask"), ("JAXJob", "RestartTask")],
)
def test_a_job_is_a_group_of_its_framework_by_its_default_restart_policy(
    kind: str, action: str
) -> None:
    spec = convert_one(job(kind, {})).job["spec"]
    (task,) = spec["tasks"]
    assert (task["replicas"], task["processGroup"]) == (3, {"framework": _KINDS[kind][1]})
    (main,) = task["template"]["spec"]["containers"]
    assert main["ports"] == [{"name": "master-port", "containerPort": 9991}]
    assert spec["failurePolicy"]["rules"][1:] == [{"tasks": ["learner"], "action": action}]


def test_a_group_of_paddle_is_not_elastic() -> None:
    found = convert_one(job("PaddleJob", {}, elasticPolicy={"minReplicas": 1, "maxReplicas": 4}))
    assert "elastic" not in found.job["spec"]["tasks"][0]["processGroup"]
    assert [each.path for each in found.comments if "fixed size" in each.why] == [
        "spec.elasticPolicy.minReplicas",
        "spec.elasticPolicy.maxReplicas",
    ]


def _roles(kind: str) -> tuple[str, ...]:
    return _ROLES.get(kind, ("Master", "Worker"))


def _manifests(kind: str) -> st.SearchStrategy[Object]:
    field, container, port = _KINDS[kind]
    elastic = some({}, {"minReplicas": st.just(41), "maxReplicas": st.just(42)})
    spec = some(
        {field: roles(template(container, port), *_roles(kind))},
        {"runPolicy": run_policy(), "elasticPolicy": elastic},
    )
    return manifests(kind, spec)


@given(st.sampled_from([*_KINDS]).flatmap(_manifests))
def test_no_field_of_a_job_with_a_group_is_lost(manifest: Object) -> None:
    found = outcome(manifest)
    if isinstance(found, str):
        assert "leaderTemplatePatch cannot express" in found
        return
    assert lost(manifest, found) == []
    assert pods_of(found) == pods(manifest["spec"][_KINDS[manifest["kind"]][0]])
    assert validate_job(found.job) == []
