"""Service accounts with rights of their own, and tokens of theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from di_kube.client import KubeClient
from di_kube.resources import SERVICE_ACCOUNTS, Resource
from di_kube.sync import SyncKubeClient

_RBAC: Final = "rbac.authorization.k8s.io"
_ROLES: Final = Resource(group=_RBAC, version="v1", plural="roles", kind="Role")
_BINDINGS: Final = Resource(group=_RBAC, version="v1", plural="rolebindings", kind="RoleBinding")
_CLUSTER_ROLES: Final = Resource(
    group=_RBAC, version="v1", plural="clusterroles", kind="ClusterRole", namespaced=False
)
_CLUSTER_BINDINGS: Final = Resource(
    group=_RBAC,
    version="v1",
    plural="clusterrolebindings",
    kind="ClusterRoleBinding",
    namespaced=False,
)


def grant(kube: SyncKubeClient, namespace: str, name: str, rules: Sequence[dict[str, Any]]) -> None:
    """Give an account of the namespace these rights in it."""
    meta = {"metadata": {"name": name}}
    kube.create(_ROLES, {**meta, "rules": [*rules]}, namespace)
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": _RBAC, "kind": "Role", "name": name}
    kube.create(_BINDINGS, {**meta, "roleRef": role, "subjects": [subject]}, namespace)


def new_account(
    kube: SyncKubeClient, namespace: str, name: str, rules: Sequence[dict[str, Any]]
) -> None:
    """Make an account with these rights in its namespace."""
    kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, namespace)
    grant(kube, namespace, name, rules)


def token_of(
    kube: SyncKubeClient,
    namespace: str,
    name: str,
    *,
    audience: str = "",
    seconds: int = 3600,
    pod: dict[str, Any] | None = None,
) -> str:
    """A token of an account.

    Args:
        audience: whom it is for; empty: the API server.
        seconds: it holds; the API server takes none below 600.
        pod: the pod that it is bound to, as the kubelet projects it into one.
    """
    spec: dict[str, Any] = {"expirationSeconds": seconds}
    if audience:
        spec["audiences"] = [audience]
    if pod:
        metadata = {key: pod["metadata"][key] for key in ("name", "uid")}
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", **metadata}
    body = {"metadata": {"name": name}, "spec": spec}
    made = kube.create(SERVICE_ACCOUNTS, body, namespace, subresource="token")
    return str(made["status"]["token"])


@asynccontextmanager
async def granted_everywhere(
    client: KubeClient, namespace: str, account: str, name: str, rules: Sequence[dict[str, Any]]
) -> AsyncIterator[None]:
    """An account of a namespace has these rights in all of them while the block runs.

    `name` is that of the ClusterRole and of its binding.
    """
    meta = {"metadata": {"name": name}}
    role = {"apiGroup": _RBAC, "kind": _CLUSTER_ROLES.kind, "name": name}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    await client.create(_CLUSTER_ROLES, {**meta, "rules": [*rules]})
    await client.create(_CLUSTER_BINDINGS, {**meta, "roleRef": role, "subjects": [subject]})
    try:
        yield
    finally:
        await client.delete(_CLUSTER_BINDINGS, name)
        await client.delete(_CLUSTER_ROLES, name)
