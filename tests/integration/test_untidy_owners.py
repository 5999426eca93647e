"""What people do to a job's objects by hand, and objects of others under its names."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.resources import CONFIGMAPS, PODS
from di_api.names import LABEL_JOB, LABEL_OPERATOR, LABEL_TASK_NAME, OPERATOR_NAME
from tests.integration.operator_field import Field, condition, job, on_field, task

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]


async def put_foreign_pod(field: Field, name: str, of_job: str) -> Object:
    """A pod that looks like the operator's, and is controlled by a ConfigMap."""
    owner = await field.client.create(
        CONFIGMAPS, {"metadata": {"name": f"owner-of-{name}"}}, field.namespace
    )
    labels = {LABEL_OPERATOR: OPERATOR_NAME, LABEL_JOB: of_job, LABEL_TASK_NAME: "collector"}
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
    named = {key: owner["metadata"][key] for key in ("name", "uid")}
    body = {
        "metadata": {"name": name, "labels": labels, "ownerReferences": [reference | named]},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    return await field.client.create(PODS, body, field.namespace)


@pytest.mark.parametrize("preemptible", [False, True])
def test_a_pod_of_others_that_wears_our_labels_is_not_touched(
    kube_config: KubeConfig, namespace: str, preemptible: bool
) -> None:
    async def body(field: Field) -> None:
        foreign = await put_foreign_pod(field, "a-collector-0", "a")
        async with field.operator(policy="fit"):
            await field.submit(job("a", task("collector"), preemptible=preemptible))
            failed = condition(await field.phase("a", "Failed"), "Failed")
            assert failed["reason"] == "PodNameConflict"
            assert "a-collector-0" in failed["message"]
            found = await field.client.get(PODS, "a-collector-0", namespace)
            assert found["metadata"]["uid"] == foreign["metadata"]["uid"]
            assert "deletionTimestamp" not in found["metadata"]

    on_field(kube_config, namespace, body)
