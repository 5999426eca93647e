"""The fake kubelet against the real API server: tests of controllers lean on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import PODS
from di_kube.wire import Object
from tests.fakes.kubelet import EXIT_CODE, REASON, RUN_FOR, STOP_AFTER, FakeKubelet
from tests.waiting import wait_until_async

Body = Callable[[KubeClient, FakeKubelet], Awaitable[None]]


def with_kubelet(config: KubeConfig, namespace: str, body: Body) -> None:
    async def main() -> None:
        async with (
            KubeClient(config=config) as client,
            FakeKubelet(client, namespace=namespace) as kubelet,
        ):
            await body(client, kubelet)

    asyncio.run(main())


def pod(namespace: str, name: str, annotations: dict[str, str] | None = None) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "none"}],
        },
    }


def test_a_pod_runs_and_is_ready_with_an_address(kube_config: KubeConfig, namespace: str) -> None:
    async def body(client: KubeClient, kubelet: FakeKubelet) -> None:
        await client.create(PODS, pod(namespace, "a"))

        async def is_ready() -> bool:
            status = (await client.get(PODS, "a", namespace))["status"]
            return any(
                c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", [])
            )

        await wait_until_async(is_ready)
        found = await client.get(PODS, "a", namespace)
        assert found["status"]["phase"] == "Running"
        assert found["status"]["podIP"].startswith("10.245.")
        assert found["status"]["containerStatuses"][0]["ready"] is True

    with_kubelet(kube_config, namespace, body)


def test_a_pod_is_ready_again_after_its_node_was_taken_for_lost(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(client: KubeClient, kubelet: FakeKubelet) -> None:
        async def is_ready() -> bool:
            conditions = (await client.get(PODS, "a", namespace))["status"]["conditions"]
            return {"Ready": "True"}.items() <= {c["type"]: c["status"] for c in conditions}.items()

        await client.create(PODS, pod(namespace, "a"))
        await wait_until_async(is_ready)
        # As the node controller writes it.
        lost = {"conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]}
        await client.patch(PODS, "a", {"status": lost}, namespace, subresource="status")
        await wait_until_async(is_ready)

    with_kubelet(kube_config, namespace, body)


def test_a_pod_ends_as_its_annotations_tell(kube_config: KubeConfig, namespace: str) -> None:
    async def body(client: KubeClient, kubelet: FakeKubelet) -> None:
        good = pod(namespace, "good", {RUN_FOR: "0.2"})
        killed = {RUN_FOR: "0.2", EXIT_CODE: "137", REASON: "OOMKilled"}
        bad = pod(namespace, "bad", killed)
        await asyncio.gather(client.create(PODS, good), client.create(PODS, bad))

        async def phases() -> bool:
            items, _ = await client.list(PODS, namespace)
            found = {item["metadata"]["name"]: item["status"]["phase"] for item in items}
            return found == {"good": "Succeeded", "bad": "Failed"}

        await wait_until_async(phases)
        ended = (await client.get(PODS, "bad", namespace))["status"]["containerStatuses"][0]
        assert ended["state"]["terminated"]["exitCode"] == 137
        assert ended["state"]["terminated"]["reason"] == "OOMKilled"

    with_kubelet(kube_config, namespace, body)


def test_a_deleted_pod_stays_while_it_stops_and_then_goes(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(client: KubeClient, kubelet: FakeKubelet) -> None:
        await client.create(PODS, pod(namespace, "slow", {STOP_AFTER: "1"}))

        async def is_running() -> bool:
            return bool((await client.get(PODS, "slow", namespace))["status"]["phase"] == "Running")

        async def is_gone() -> bool:
            try:
                await client.get(PODS, "slow", namespace)
            except NotFound:
                return True
            return False

        await wait_until_async(is_running)
        leaving = await client.delete(PODS, "slow", namespace)
        assert leaving["metadata"]["deletionGracePeriodSeconds"] == 30
        await wait_until_async(is_gone)

    with_kubelet(kube_config, namespace, body)


def test_a_test_can_end_a_pod_by_hand(kube_config: KubeConfig, namespace: str) -> None:
    async def body(client: KubeClient, kubelet: FakeKubelet) -> None:
        await client.create(PODS, pod(namespace, "a"))

        async def has_phase(phase: str) -> bool:
            return bool((await client.get(PODS, "a", namespace))["status"]["phase"] == phase)

        await wait_until_async(lambda: has_phase("Running"))
        await kubelet.finish(namespace, "a", exit_code=3)
        await wait_until_async(lambda: has_phase("Failed"))

    with_kubelet(kube_config, namespace, body)
