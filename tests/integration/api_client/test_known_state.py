"""What a file of tests leaves in the cluster is deleted before the next one."""

from __future__ import annotations

import asyncio
import secrets

from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.resources import DIJOBS, NAMESPACES, Resource
from tests.integration.known_state import KnownState
from tests.integration.operator_testbed import job, task

POLICIES = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicies",
    kind="ValidatingAdmissionPolicy",
    namespaced=False,
)


def test_what_was_created_since_is_deleted_and_nothing_else(
    kube_config: KubeConfig, known_state: KnownState, crd: str
) -> None:
    name = f"test-{secrets.token_hex(4)}"

    async def run() -> None:
        async with KubeClient(config=kube_config) as client:
            earlier = await KnownState.of(client)
            await client.create(NAMESPACES, {"metadata": {"name": name}})
            await client.create(DIJOBS, job("left", task()), name)
            await client.create(
                POLICIES,
                {
                    "metadata": {"name": name},
                    "spec": {
                        "matchConstraints": {
                            "resourceRules": [
                                {
                                    "apiGroups": [""],
                                    "apiVersions": ["v1"],
                                    "operations": ["*"],
                                    "resources": ["namespaces"],
                                }
                            ]
                        },
                        "validations": [{"expression": "false"}],
                    },
                },
            )
            deleted = await earlier.restore(client)
            assert deleted == [f"validatingadmissionpolicies/{name}", f"namespaces/{name}"]
            jobs, _ = await client.list(DIJOBS, namespace=name)
            assert not jobs, "they would be watched until Kubernetes empties the namespace"
            assert await earlier.restore(client) == []

    asyncio.run(run())
