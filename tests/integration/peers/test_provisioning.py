"""A job that asks for nodes, against an API server that serves ProvisioningRequests.

No autoscaler runs here, since all that there are make nodes of a cloud: what one writes is played.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import pytest

from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import CRDS
from di_operator.builders.provisioning import REQUESTS, TEMPLATES
from tests.integration.conftest import install_crd
from tests.integration.operator_testbed import Testbed, job, task, with_testbed

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]
CLASS: Final = "check-capacity.autoscaling.x-k8s.io"
# What of the definition the operator goes by.
KIND: Final[Object] = {
    "apiVersion": CRDS.api_version,
    "kind": CRDS.kind,
    "metadata": {
        "name": f"{REQUESTS.plural}.{REQUESTS.group}",
        # The API server guards the groups of its own project.
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": REQUESTS.group,
        "scope": "Namespaced",
        "names": {
            "plural": REQUESTS.plural,
            "singular": "provisioningrequest",
            "kind": REQUESTS.kind,
        },
        "versions": [
            {
                "name": REQUESTS.version,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["provisioningClassName", "podSets"],
                                "x-kubernetes-validations": [
                                    {"rule": "self == oldSelf", "message": "may not change"}
                                ],
                                "properties": {
                                    "provisioningClassName": {"type": "string", "maxLength": 253},
                                    "podSets": {
                                        "type": "array",
                                        "minItems": 1,
                                        "maxItems": 32,
                                        "items": {
                                            "type": "object",
                                            "required": ["count", "podTemplateRef"],
                                            "properties": {
                                                "count": {"type": "integer", "minimum": 1},
                                                "podTemplateRef": {
                                                    "type": "object",
                                                    "properties": {"name": {"type": "string"}},
                                                },
                                            },
                                        },
                                    },
                                },
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}


@with_testbed
async def test_a_job_has_its_pods_once_it_has_its_nodes(
    testbed: Testbed, kube_config: KubeConfig
) -> None:
    await install_crd(kube_config, KIND)
    async with testbed.operator():
        asked = {"scheduling": {"provisioningClassName": CLASS}}
        await testbed.submit(job("a", task("work", 2), **asked))

        async def is_asked_for() -> bool:
            with suppress(NotFound):
                await testbed.client.get(REQUESTS, "a", testbed.namespace)
                return True
            return False

        await testbed.until(is_asked_for, "the request")
        found = await testbed.client.get(REQUESTS, "a", testbed.namespace)
        assert found["spec"] == {
            "provisioningClassName": CLASS,
            "podSets": [{"count": 2, "podTemplateRef": {"name": "a-work"}}],
        }
        template = await testbed.client.get(TEMPLATES, "a-work", testbed.namespace)
        assert template["template"]["spec"]["containers"]
        assert await testbed.pods("a") == {}
        condition = {
            "type": "Provisioned",
            "status": "True",
            "reason": "CapacityIsFound",
            "message": "there is room",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await testbed.client.patch(
            REQUESTS,
            "a",
            {"status": {"conditions": [condition]}},
            testbed.namespace,
            subresource="status",
        )
        await testbed.phase("a", "Running")
        for pod in (await testbed.pods("a")).values():
            notes = pod["metadata"]["annotations"]
            assert notes["autoscaling.x-k8s.io/consume-provisioning-request"] == "a"
