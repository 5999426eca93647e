"""What the API server answers about objects that schedulers read, as the operator is told it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from di_api.names import API_VERSION, KIND
from di_api.spec import GangScheduler
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.resources import Resource
from di_kube.sync import SyncKubeClient
from di_operator.builders.disruption_budget import BUDGETS
from di_operator.builders.pod_group import KINDS
from di_operator.cluster.scheduling_objects import SchedulingObjects
from di_operator.lifecycle.vocabulary.actions import CreateSchedulingObject
from di_operator.lifecycle.vocabulary.rules import Seen
from di_operator.lifecycle.write_errors import SchedulingObjectRefused
from tests.integration.service_accounts import new_account, token_of

_VOLCANO = KINDS[GangScheduler.VOLCANO].resource


@dataclass(frozen=True)
class _Recipe:
    resource: Resource
    namespace: str

    def build(self) -> dict[str, Any]:
        owner = {"apiVersion": API_VERSION, "kind": KIND, "name": "a", "uid": "1"}
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {
                "name": "a",
                "namespace": self.namespace,
                "ownerReferences": [{**owner, "controller": True}],
            },
        }

    def changes(self, found: Mapping[str, Any]) -> None: ...


@pytest.mark.parametrize(
    ("resource", "may", "seen", "words"),
    [
        (_VOLCANO, False, Seen.SCHEDULING_KIND_MISSING, "scheduling.gangSchedulers"),
        (_VOLCANO, True, Seen.SCHEDULING_KIND_MISSING, "nothing in this cluster serves it"),
        (BUDGETS, False, Seen.SCHEDULING_OBJECT_REFUSED, "scheduling.disruptionBudgets"),
    ],
    ids=["neither-served-nor-allowed", "not-served", "not-allowed"],
)
def test_a_refusal_names_the_missing_kind_or_the_value_of_the_chart(
    kube_config: KubeConfig,
    namespace: str,
    *,
    resource: Resource,
    may: bool,
    seen: Seen,
    words: str,
) -> None:
    verbs = ["get", "create", "patch"] if may else ["get"]
    rule = {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": verbs}
    with SyncKubeClient(config=kube_config, timeout=60) as kube:
        new_account(kube, namespace, "operator", [rule])
        token = token_of(kube, namespace, "operator")
    limited = KubeConfig(
        server=kube_config.server,
        ca_pem=kube_config.ca_pem,
        authorization=lambda: f"Bearer {token}",
    )

    async def create() -> SchedulingObjectRefused | None:
        async with KubeClient(config=limited) as client:
            objects = SchedulingObjects(client=client, reread_seconds=30.0, monotonic=lambda: 0.0)
            action = CreateSchedulingObject(
                resource=resource, name="a", recipe=_Recipe(resource, namespace)
            )
            return await objects.create(action)

    refused = asyncio.run(create())
    assert refused is not None
    assert (refused.seen, words in refused.message) == (seen, True), refused.message
