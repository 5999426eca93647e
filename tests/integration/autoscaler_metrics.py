"""Stand-ins of the APIs that Kubernetes' autoscaler reads metrics from.

Nothing measures here. The kinds are custom resources under the names of those APIs, so that the
autoscaler finds in them what a test has written: it is real, its metrics are not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import CRDS, POD_METRICS, Resource
from tests.integration.conftest import install_crd
from tests.waiting import wait_until_async

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Metrics:
    """What the autoscaler reads in a namespace."""

    client: KubeClient
    namespace: str
    external: Resource

    async def say(self, value: str, labels: Mapping[str, str]) -> None:
        """Give the external metric a value, a quantity."""
        body = {
            **_head(self.external, "one", labels),
            **{"metricName": self.external.plural, "metricLabels": dict(labels)},
            **{"timestamp": _soon(), "value": value},
        }
        await self._write(self.external, body)

    async def use(self, pod: Object, cpu: str) -> None:
        """Say how much of the processor a pod uses, a quantity."""
        metadata, (container,) = pod["metadata"], pod["spec"]["containers"]
        body = {
            **_head(POD_METRICS, metadata["name"], metadata["labels"]),
            **{"timestamp": _soon(), "window": "1s"},
            "containers": [{"name": container["name"], "usage": {"cpu": cpu, "memory": "1Mi"}}],
        }
        await self._write(POD_METRICS, body)

    async def _write(self, resource: Resource, body: Object) -> None:
        try:
            await self.client.patch(resource, body["metadata"]["name"], body, self.namespace)
        except NotFound:
            await self.client.create(resource, body, self.namespace)


@asynccontextmanager
async def metrics(
    config: KubeConfig, client: KubeClient, namespace: str, *, external: str
) -> AsyncIterator[Metrics]:
    """Serve metrics of pods, and the external one of that name; leaves nothing behind."""
    resource = Resource(
        group="external.metrics.k8s.io",
        version="v1beta1",
        plural=external,
        kind="ExternalMetricValue",
    )
    names = [f"{each.plural}.{each.group}" for each in (POD_METRICS, resource)]
    try:
        for each in (POD_METRICS, resource):
            await install_crd(config, _definition(each))
        yield Metrics(client, namespace, resource)
    finally:
        for name in names:
            await client.delete(CRDS, name)

        async def are_gone() -> bool:
            listed, _ = await client.list(CRDS)
            return not {each["metadata"]["name"] for each in listed} & set(names)

        await wait_until_async(are_gone, what="the stand-ins to be gone")


def _definition(resource: Resource) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            # Names that end like this are Kubernetes' own, unless one says why not.
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in of a test"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "plural": resource.plural,
                "singular": resource.plural,
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _head(resource: Resource, name: str, labels: Mapping[str, str]) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "labels": dict(labels)},
    }


def _soon() -> str:
    """A sample that began before its pod was ready counts for nothing: this one is of later."""
    return (datetime.now(UTC) + timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
