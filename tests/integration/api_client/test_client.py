"""Both API clients against the real API server, wherever they must behave alike."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unauthorized,
    Unavailable,
)
from di_kube.resources import (
    CONFIGMAPS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    TOKEN_REVIEWS,
    Resource,
)
from di_kube.sync import SyncKubeClient
from di_kube.wire import APPLY_PATCH, JSON_PATCH, Object
from tests.waiting import wait_until

QUOTAS = Resource(group="", version="v1", plural="resourcequotas", kind="ResourceQuota")
Calls = Callable[..., Any]


@pytest.fixture(params=["async", "sync"])
def call(request: pytest.FixtureRequest, kube_config: KubeConfig) -> Calls:
    """`call("get", PODS, "name", "namespace")` on either client."""
    return caller(request.param, kube_config)


def caller(flavour: str, config: KubeConfig) -> Calls:
    def on_async(method: str, *args: Any, **keywords: Any) -> Any:
        async def main() -> Any:
            async with KubeClient(config=config) as client:
                return await getattr(client, method)(*args, **keywords)

        return asyncio.run(main())

    def on_sync(method: str, *args: Any, **keywords: Any) -> Any:
        with SyncKubeClient(config=config) as client:
            return getattr(client, method)(*args, **keywords)

    return on_async if flavour == "async" else on_sync


def configmap(name: str, **data: str) -> Object:
    return {"metadata": {"name": name}, "data": data}


def pod(name: str) -> Object:
    containers = [{"name": "main", "image": "none"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers}}


def test_what_was_created_is_read_and_listed(call: Calls, namespace: str) -> None:
    created = call("create", CONFIGMAPS, configmap("a", color="red"), namespace)
    assert created["metadata"]["uid"]
    assert call("get", CONFIGMAPS, "a", namespace) == created
    items, version = call("list", CONFIGMAPS, namespace, field_selector="metadata.name=a")
    assert items == [created], "an item carries its apiVersion and kind, as a single object does"
    assert int(version) >= int(created["metadata"]["resourceVersion"])


def test_the_body_may_name_the_namespace(call: Calls, namespace: str) -> None:
    body = configmap("a")
    body["metadata"]["namespace"] = namespace
    assert call("create", CONFIGMAPS, body)["metadata"]["namespace"] == namespace


def test_lists_are_read_page_by_page(call: Calls, namespace: str) -> None:
    names = [f"p{number}" for number in range(7)]
    for name in names:
        body = configmap(name)
        body["metadata"]["labels"] = {"paged": "yes"}
        call("create", CONFIGMAPS, body, namespace)
    items, _ = call("list", CONFIGMAPS, namespace, label_selector="paged=yes", limit=2)
    assert sorted(item["metadata"]["name"] for item in items) == names


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        ("application/merge-patch+json", {"data": {"color": "blue"}}),
        (JSON_PATCH, [{"op": "replace", "path": "/data/color", "value": "blue"}]),
    ],
)
def test_patches(call: Calls, namespace: str, content_type: str, patch: Any) -> None:
    call("create", CONFIGMAPS, configmap("a", color="red", size="big"), namespace)
    changed = call(
        "patch",
        CONFIGMAPS,
        "a",
        patch,
        namespace,
        content_type=content_type,
        field_manager="tester",
    )
    assert changed["data"] == {"color": "blue", "size": "big"}
    managers = {entry["manager"] for entry in changed["metadata"]["managedFields"]}
    assert "tester" in managers


def test_a_status_patch_leaves_the_rest_alone(call: Calls, namespace: str) -> None:
    call("create", PODS, pod("a"), namespace)
    patch = {"spec": {"activeDeadlineSeconds": 5}, "status": {"message": "hello"}}
    changed = call("patch", PODS, "a", patch, namespace, subresource="status")
    assert changed["status"]["message"] == "hello"
    assert "activeDeadlineSeconds" not in changed["spec"]


def test_a_taken_name(call: Calls, namespace: str) -> None:
    call("create", CONFIGMAPS, configmap("a"), namespace)
    with pytest.raises(AlreadyExists) as caught:
        call("create", CONFIGMAPS, configmap("a"), namespace)
    error = caught.value
    assert (error.kind, error.namespace, error.name) == ("ConfigMap", namespace, "a")
    assert (error.code, error.reason) == (409, "AlreadyExists")


def test_a_name_that_is_not_there(call: Calls, namespace: str) -> None:
    with pytest.raises(NotFound, match=f"ConfigMap {namespace}/nothing: 404 NotFound"):
        call("get", CONFIGMAPS, "nothing", namespace)
    with pytest.raises(NotFound):
        call("patch", CONFIGMAPS, "nothing", {"data": {}}, namespace)


@pytest.mark.parametrize("name", ["../secrets", "a/b", "a%2Fb", "a?watch=true", "a#b", "ä\x00"])
def test_a_hostile_name_reaches_no_other_object(call: Calls, namespace: str, name: str) -> None:
    with pytest.raises((NotFound, Invalid)):
        call("get", CONFIGMAPS, name, namespace)


def test_a_stale_version_is_a_conflict(call: Calls, namespace: str) -> None:
    old = call("create", CONFIGMAPS, configmap("a"), namespace)["metadata"]["resourceVersion"]
    call("patch", CONFIGMAPS, "a", {"data": {"color": "red"}}, namespace)
    stale = {"metadata": {"resourceVersion": old}, "data": {"color": "blue"}}
    with pytest.raises(Conflict):
        call("patch", CONFIGMAPS, "a", stale, namespace)


def test_a_refused_object_is_invalid_with_the_servers_words(call: Calls, namespace: str) -> None:
    body = pod("a")
    body["spec"]["containers"] = []
    with pytest.raises(Invalid, match=r"spec\.containers: Required value") as caught:
        call("create", PODS, body, namespace)
    assert caught.value.code == 422
    with pytest.raises(Invalid) as caught:
        call("create", PODS, {"metadata": {"name": "a"}, "spec": "no object"}, namespace)
    assert caught.value.code == 400


def test_an_exceeded_quota_is_told_from_other_refusals(call: Calls, namespace: str) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    call("create", QUOTAS, quota, namespace)
    numbers = itertools.count()

    def refused() -> Forbidden | None:
        # Admission learns by a watch of its own that the quota counts.
        try:
            call("create", PODS, pod(f"a{next(numbers)}"), namespace)
        except Forbidden as error:
            return error
        return None

    error = wait_until(refused, what="the quota to hold")
    assert error is not None
    assert error.is_quota


@pytest.mark.parametrize("flavour", ["async", "sync"])
def test_a_wrong_token(kube_config: KubeConfig, namespace: str, flavour: str) -> None:
    stranger = replace(
        kube_config,
        client_cert_pem=None,
        client_key_pem=None,
        authorization=lambda: "Bearer wrong",
    )
    with pytest.raises(Unauthorized):
        caller(flavour, stranger)("get", CONFIGMAPS, "a", namespace)


@pytest.mark.parametrize("flavour", ["async", "sync"])
def test_a_service_account_token_and_its_limits(
    kube_config: KubeConfig, namespace: str, flavour: str
) -> None:
    admin = caller(flavour, kube_config)
    request = {"metadata": {"name": "default"}, "spec": {}}
    made = admin("create", SERVICE_ACCOUNTS, request, namespace, subresource="token")
    token = made["status"]["token"]
    account = replace(
        kube_config,
        client_cert_pem=None,
        client_key_pem=None,
        authorization=lambda: f"Bearer {token}",
    )
    with pytest.raises(Forbidden) as caught:
        caller(flavour, account)("get", SERVICE_ACCOUNTS, "default", namespace)
    assert not caught.value.is_quota
    review = admin("create", TOKEN_REVIEWS, {"spec": {"token": token}})
    assert review["status"]["user"]["username"] == f"system:serviceaccount:{namespace}:default"


@pytest.mark.parametrize("flavour", ["async", "sync"])
def test_a_server_of_another_authority_is_not_trusted(
    kube_config: KubeConfig, flavour: str
) -> None:
    with pytest.raises(Unavailable, match="certificate"):
        caller(flavour, replace(kube_config, ca_pem=None))("get", NAMESPACES, "default")


@pytest.mark.parametrize("flavour", ["async", "sync"])
def test_a_server_that_is_not_there(kube_config: KubeConfig, flavour: str) -> None:
    absent = replace(kube_config, server="https://127.0.0.1:1")
    with pytest.raises(Unavailable) as caught:
        caller(flavour, absent)("get", NAMESPACES, "default")
    assert caught.value.code == 0
    assert caught.value.reason == "ConnectionError"


# --- what the asynchronous client alone can do ---


def on_async(config: KubeConfig, body: Callable[[KubeClient], Awaitable[None]]) -> None:
    async def main() -> None:
        async with KubeClient(config=config) as client:
            await body(client)

    asyncio.run(main())


def test_a_delete_holds_to_its_preconditions(kube_config: KubeConfig, namespace: str) -> None:
    async def body(client: KubeClient) -> None:
        made = await client.create(CONFIGMAPS, configmap("a"), namespace)
        metadata = made["metadata"]
        with pytest.raises(Conflict):
            await client.delete(CONFIGMAPS, "a", namespace, uid="another")
        await client.patch(CONFIGMAPS, "a", {"data": {"color": "red"}}, namespace)
        version = metadata["resourceVersion"]
        with pytest.raises(Conflict):
            await client.delete(
                CONFIGMAPS, "a", namespace, uid=metadata["uid"], resource_version=version
            )
        await client.delete(CONFIGMAPS, "a", namespace, uid=metadata["uid"])
        with pytest.raises(NotFound):
            await client.delete(CONFIGMAPS, "a", namespace)

    on_async(kube_config, body)


def test_replace_is_a_compare_and_swap(kube_config: KubeConfig, namespace: str) -> None:
    async def body(client: KubeClient) -> None:
        made = await client.create(CONFIGMAPS, configmap("a", color="red"), namespace)
        swapped = await client.replace(CONFIGMAPS, "a", made | {"data": {}}, namespace)
        assert "data" not in swapped
        with pytest.raises(Conflict):
            await client.replace(CONFIGMAPS, "a", made, namespace)

    on_async(kube_config, body)


def test_apply_creates_and_owns_its_fields(kube_config: KubeConfig, namespace: str) -> None:
    async def body(client: KubeClient) -> None:
        full = {"apiVersion": "v1", "kind": "ConfigMap"} | configmap("a", color="red")

        async def apply(manager: str, obj: Object, *, force: bool | None = None) -> Object:
            return await client.patch(
                CONFIGMAPS,
                "a",
                obj,
                namespace,
                content_type=APPLY_PATCH,
                field_manager=manager,
                force=force,
            )

        await apply("first", full)
        other = full | {"data": {"color": "blue"}}
        with pytest.raises(Conflict):
            await apply("second", other)
        assert (await apply("second", other, force=True))["data"] == {"color": "blue"}

    on_async(kube_config, body)


def test_a_watch_tells_what_happened_since(kube_config: KubeConfig, namespace: str) -> None:
    async def body(client: KubeClient) -> None:
        _, version = await client.list(CONFIGMAPS, namespace)
        await client.create(CONFIGMAPS, configmap("a"), namespace)
        await client.patch(CONFIGMAPS, "a", {"data": {"color": "red"}}, namespace)
        await client.delete(CONFIGMAPS, "a", namespace)
        seen = []
        async for kind, obj in client.watch(
            CONFIGMAPS, namespace, resource_version=version, timeout_seconds=20
        ):
            if obj["metadata"].get("name") == "a":
                seen.append(kind)
                if kind == "DELETED":
                    break
        assert seen == ["ADDED", "MODIFIED", "DELETED"]

    on_async(kube_config, body)


def test_a_watch_can_begin_with_the_whole_collection(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(client: KubeClient) -> None:
        await client.create(CONFIGMAPS, configmap("a"), namespace)
        names = []
        async for kind, obj in client.watch(
            CONFIGMAPS,
            namespace,
            resource_version="",
            timeout_seconds=20,
            send_initial_events=True,
        ):
            if "k8s.io/initial-events-end" in obj["metadata"].get("annotations", {}):
                break
            assert kind == "ADDED"
            names.append(obj["metadata"]["name"])
        assert "a" in names

    on_async(kube_config, body)


def test_many_writes_at_once_share_the_connections(kube_config: KubeConfig, namespace: str) -> None:
    async def body(client: KubeClient) -> None:
        prefix = secrets.token_hex(2)
        await asyncio.gather(
            *(client.create(CONFIGMAPS, configmap(f"{prefix}-{n}"), namespace) for n in range(200))
        )
        items, _ = await client.list(CONFIGMAPS, namespace, limit=50)
        assert sum(item["metadata"]["name"].startswith(prefix) for item in items) == 200
        assert client.requests["POST", "configmaps", 201] == 200
        assert client.requests["GET", "configmaps", 200] >= 4

    on_async(kube_config, body)


def test_raw_paths_and_failures_are_counted(kube_config: KubeConfig) -> None:
    async def body(client: KubeClient) -> None:
        assert await client.raw("/readyz") == b"ok"
        with suppress(ApiError):
            await client.get(NAMESPACES, "nothing")
        assert client.requests["GET", "-", 200] == 1
        assert client.requests["GET", "namespaces", 404] == 1

    on_async(kube_config, body)
