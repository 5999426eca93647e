"""The cluster-scoped objects of a test session's API server, brought back after each file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from di_kube.client import KubeClient
from di_kube.errors import ApiError, NotFound
from di_kube.resources import DIJOBS, NAMESPACES, Resource

_FROM_OTHERS: Final = frozenset({"apiservices", "componentstatuses"})
"""Kinds that the API server derives from other objects, and removes with these."""

Names = Mapping[Resource, frozenset[str]]


@dataclass(slots=True)
class KnownState:
    """Which cluster-scoped objects exist before the first test.

    What a file leaves, such as a webhook configuration or a policy, would change the requests of
    every file after it.
    """

    names: Names = field(default_factory=dict)

    @classmethod
    async def of(cls, client: KubeClient) -> KnownState:
        """Return the state as it is."""
        return cls({each: await _names(client, each) for each in await _kinds(client)})

    async def restore(self, client: KubeClient) -> list[str]:
        """Delete what has been created since; returns its kinds and names."""
        deleted = []
        for kind in await _kinds(client):
            for name in sorted(await _names(client, kind) - self.names.get(kind, frozenset())):
                try:
                    await client.delete(kind, name)
                except NotFound:
                    continue
                deleted.append(f"{kind.plural}/{name}")
                if kind.plural == NAMESPACES.plural and not kind.group:
                    await delete_jobs(client, name)
        return deleted


async def delete_jobs(client: KubeClient, namespace: str) -> None:
    """Delete the jobs of a namespace that is deleted.

    Kubernetes removes them about five seconds later, and until then every service of the next test
    that watches all namespaces would read them, those that no service can read among them.
    """
    try:
        jobs, _ = await client.list(DIJOBS, namespace=namespace)
    except NotFound:  # the definition is not installed
        return
    for job in jobs:
        with suppress(NotFound):
            await client.delete(DIJOBS, job["metadata"]["name"], namespace)


async def _kinds(client: KubeClient) -> list[Resource]:
    """Return the cluster-scoped kinds that can be listed and deleted, as they are served now."""
    groups = json.loads(await client.raw("/apis"))["groups"]
    preferred = [("", "v1"), *((g["name"], g["preferredVersion"]["version"]) for g in groups)]
    found = []
    for group, version in preferred:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            served = json.loads(await client.raw(path))["resources"]
        except ApiError:  # an aggregated API whose server has ended
            continue
        found += [_resource(group, version, each) for each in served if _is_restored(each)]
    # Policies and webhooks would refuse the deletion of others.
    return sorted(found, key=lambda each: each.group != "admissionregistration.k8s.io")


def _is_restored(kind: Mapping[str, Any]) -> bool:
    return (
        not kind["namespaced"]
        and {"list", "delete"} <= {*kind["verbs"]}
        and kind["name"] not in _FROM_OTHERS
    )


def _resource(group: str, version: str, kind: Mapping[str, Any]) -> Resource:
    return Resource(
        group=group, version=version, plural=kind["name"], kind=kind["kind"], namespaced=False
    )


async def _names(client: KubeClient, kind: Resource) -> frozenset[str]:
    try:
        objects, _ = await client.list(kind)
    except NotFound:  # its definition was deleted meanwhile
        return frozenset()
    return frozenset(
        each["metadata"]["name"] for each in objects if "deletionTimestamp" not in each["metadata"]
    )
