"""What the API server takes in templates, of quantities above all, with no webhook to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from di_api.names import API_VERSION, KIND
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import ApiError
from di_kube.resources import AGGREGATOR_CONFIGS, DIJOBS, PODS, Resource
from tests.integration.conftest import install_crd
from tests.integration.operator.test_aggregator_config import DEFINITION, NAME
from tests.unit.api.quantities import REFUSED, TAKEN, TOO_LARGE

CONTAINER: dict[str, Any] = {"name": "di-container", "image": "busybox"}


def sized(*limits: str) -> dict[str, Any]:
    """The spec of a pod with so many volumes; each limit is a quantity."""
    volumes = [{"name": f"v{n}", "emptyDir": {"sizeLimit": x}} for n, x in enumerate(limits)]
    return {"containers": [CONTAINER], "volumes": volumes}


def requesting(amount: str) -> dict[str, Any]:
    return {"containers": [CONTAINER | {"resources": {"requests": {"memory": amount}}}]}


def job(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"generateName": "job-"},
        "spec": spec,
    }


def of_tasks(pod: Mapping[str, Any]) -> dict[str, Any]:
    return job({"tasks": [{"type": "learner", "template": {"spec": pod}}]})


def coordinated(pod: Mapping[str, Any], role: str = "coordinator", **more: Any) -> dict[str, Any]:
    roles = {each: {"template": {"spec": {"containers": [CONTAINER]}}} for each in ("coordinator",)}
    return job({"coordinated": roles | {role: {"template": {"spec": pod, **more}}}})


async def refusal(
    client: KubeClient, resource: Resource, body: dict[str, Any], where: str
) -> str | None:
    try:
        await client.create(resource, body, where)
    except ApiError as error:
        return str(error)
    return None


@pytest.mark.usefixtures("crd")
def test_the_definition_takes_the_quantities_that_a_pod_may_have(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def scenario() -> None:
        async with KubeClient(config=kube_config) as client:
            pod = sized(*TAKEN, *TOO_LARGE)
            await client.create(PODS, {"metadata": {"name": "all"}, "spec": pod}, namespace)
            await client.create(DIJOBS, of_tasks(pod), namespace)
            await client.create(DIJOBS, coordinated(pod), namespace)
            for amount in (*TAKEN, *TOO_LARGE):
                await client.create(DIJOBS, coordinated(requesting(amount)), namespace)

    asyncio.run(scenario())


@pytest.mark.usefixtures("crd")
def test_the_definition_refuses_the_quantities_that_no_pod_may_have(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def scenario() -> None:
        memory = "spec.containers[0].resources.requests.memory"
        async with KubeClient(config=kube_config) as client:
            for what, text in REFUSED.items():
                pod = {"metadata": {"generateName": "pod-"}, "spec": requesting(text)}
                assert await refusal(client, PODS, pod, namespace), what
                for body, path in (
                    (of_tasks(requesting(text)), f"spec.tasks[0].template.{memory}"),
                    (of_tasks(sized(text)), "volumes[0].emptyDir.sizeLimit"),
                    (
                        coordinated(requesting(text), "learner"),
                        f"spec.coordinated.learner.template.{memory}",
                    ),
                ):
                    said = await refusal(client, DIJOBS, body, namespace)
                    assert said is not None, what
                    assert path in said, what

    asyncio.run(scenario())


def test_the_template_of_aggregators_is_checked_as_that_of_a_task(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def scenario() -> None:
        await install_crd(kube_config, DEFINITION)
        async with KubeClient(config=kube_config) as client:
            body = {
                "apiVersion": f"{AGGREGATOR_CONFIGS.group}/{AGGREGATOR_CONFIGS.version}",
                "kind": AGGREGATOR_CONFIGS.kind,
                "metadata": {"name": NAME},
                "spec": {"aggregator": {"template": {"spec": requesting("10GB")}}},
            }
            said = await refusal(client, AGGREGATOR_CONFIGS, body, namespace)
            path = "spec.aggregator.template.spec.containers[0].resources.requests.memory"
            assert said is not None
            assert path in said

    asyncio.run(scenario())


# What the services read themselves, in a shape that they do not expect.
MISSHAPEN: dict[str, tuple[dict[str, Any], str]] = {
    "a port that is a text": (
        coordinated({"containers": [CONTAINER | {"ports": ["x"]}]}),
        "spec.coordinated.coordinator.template.spec.containers[0].ports[0]",
    ),
    "a number of a port that is a text": (
        coordinated({"containers": [CONTAINER | {"ports": [{"containerPort": "80"}]}]}),
        "containers[0].ports[0].containerPort",
    ),
    "variables that are an object": (
        coordinated({"containers": [CONTAINER | {"env": {"A": "1"}}]}),
        "spec.coordinated.coordinator.template.spec.containers[0].env",
    ),
    "a mount that is a text": (
        coordinated({"containers": [CONTAINER], "initContainers": [{"volumeMounts": ["x"]}]}),
        "spec.coordinated.coordinator.template.spec.initContainers[0].volumeMounts[0]",
    ),
    "a volume that is a text": (
        coordinated({"containers": [CONTAINER], "volumes": ["x"]}),
        "spec.coordinated.coordinator.template.spec.volumes[0]",
    ),
    "resources that are a list": (
        coordinated({"containers": [CONTAINER | {"resources": []}]}),
        "spec.coordinated.coordinator.template.spec.containers[0].resources",
    ),
    "labels that are numbers": (
        coordinated({"containers": [CONTAINER]}, metadata={"labels": {"a": 1}}),
        "spec.coordinated.coordinator.template.metadata.labels.a",
    ),
}


@pytest.mark.usefixtures("crd")
def test_the_definition_refuses_misshapen_fields_of_loose_templates(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def scenario() -> None:
        async with KubeClient(config=kube_config) as client:
            for what, (body, path) in MISSHAPEN.items():
                said = await refusal(client, DIJOBS, body, namespace)
                assert said is not None, what
                assert path in said, what
            # What they do not read is kept, null where there is nothing included.
            pod = {
                "containers": [CONTAINER | {"env": None, "resources": None, "imagee": "x"}],
                "volumes": None,
            }
            made = await client.create(DIJOBS, coordinated(pod, metadata=None), namespace)
            kept = made["spec"]["coordinated"]["coordinator"]["template"]["spec"]
            assert kept["containers"][0]["imagee"] == "x"

    asyncio.run(scenario())
