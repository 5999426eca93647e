"""Jobs whose pods another scheduler binds together: scheduler-plugins' own, and Volcano's kind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from di_api.spec import GangScheduler
from di_cluster.cluster import Cluster
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.resources import CRDS
from di_operator.builders.pod_group import KINDS
from tests.failures.sources import shown_log
from tests.integration.conftest import ApiServer, install_crd
from tests.integration.operator.test_allocation import devices, nodes, resource, where
from tests.integration.operator_testbed import Testbed, condition, job, on_testbed, with_testbed

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]
PAGE: Final = Path(__file__).resolve().parents[3] / "docs/how-to/teams-gangs.md"
GROUPS: Final = KINDS[GangScheduler.SCHEDULER_PLUGINS].resource
VOLCANO: Final = KINDS[GangScheduler.VOLCANO].resource
LATER: Final = "86400"
"""Seconds until pods are ready by themselves: longer than any test."""
GANG: Final[Object] = {"scheduling": {"gangScheduler": "scheduler-plugins"}}
# What of Volcano's definition the operator goes by; its scheduler is not there.
VOLCANO_KIND: Final[Object] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.volcano.sh"},
    "spec": {
        "group": VOLCANO.group,
        "names": {"plural": VOLCANO.plural, "singular": "podgroup", "kind": VOLCANO.kind},
        "scope": "Namespaced",
        "versions": [
            {
                "name": VOLCANO.version,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "minMember": {"type": "integer", "format": "int32"},
                                    "minResources": {
                                        "type": "object",
                                        "additionalProperties": {
                                            "anyOf": [{"type": "integer"}, {"type": "string"}],
                                            "x-kubernetes-int-or-string": True,
                                        },
                                    },
                                    "queue": {"type": "string", "default": "default"},
                                    "priorityClassName": {"type": "string"},
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


def scheduler_configuration(kubeconfig: Path) -> Object:
    """The profile that scheduler-plugins' chart makes, for its coscheduling alone."""
    coscheduling = [{"name": "Coscheduling"}]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 300, "burst": 600},
        # Pods that were refused are tried again after a second, not after ten.
        "podMaxBackoffSeconds": 1,
        "profiles": [
            {
                "schedulerName": KINDS[GangScheduler.SCHEDULER_PLUGINS].scheduler,
                "plugins": {
                    "multiPoint": {"enabled": coscheduling},
                    "queueSort": {"enabled": coscheduling, "disabled": [{"name": "*"}]},
                },
                "pluginConfig": [
                    {"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 10}}
                ],
            }
        ],
    }


@pytest.fixture(scope="module")
def scheduler(
    api_server: ApiServer, kube_config: KubeConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """scheduler-plugins' scheduler beside the cluster's own, and its PodGroup in the cluster."""
    (manifest,) = (
        path for path in Cluster().manifests("scheduler-plugins") if "podgroups" in path.name
    )
    asyncio.run(install_crd(kube_config, yaml.safe_load(manifest.read_text())))
    folder = tmp_path_factory.mktemp("scheduler")
    configuration = folder / "configuration.json"
    configuration.write_text(json.dumps(scheduler_configuration(api_server.kubeconfig)))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                api_server.binary("scheduler-plugins"),
                f"--config={configuration}",
                "--secure-port=0",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={key: value for key, value in os.environ.items() if "proxy" not in key.lower()},
        )
        try:
            with shown_log(folder / "log", "scheduler-plugins"):
                yield
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
        finally:
            process.terminate()
            process.wait(60)


async def minimum(testbed: Testbed, name: str) -> int:
    group = await testbed.client.get(GROUPS, name, testbed.namespace)
    return int(group["spec"]["minMember"])


async def bound(testbed: Testbed, name: str) -> list[str]:
    """The pods of a job that have a node."""
    return sorted(pod for pod, node in (await where(testbed, name)).items() if node)


async def refusal(testbed: Testbed, name: str, *, of: str = "") -> None:
    """Wait until the job's condition has the scheduler's words, and these.

    The scheduler refuses the pods of a group one by one.
    """

    async def is_told() -> bool:
        status = await testbed.status(name)
        phase = status.get("phase")
        if phase is None:
            return False
        found = condition(status, phase)
        return found["reason"] == "Unschedulable" and of in found["message"]

    await testbed.until(is_told, f"{name} to say why it waits")


async def one_of_two(testbed: Testbed, gang: Object) -> tuple[str, str]:
    """Submit two gangs of two pods each; returns which one runs, once one does, and which waits."""
    names = ("first", "second")
    for name in names:
        await testbed.submit(job(name, devices(testbed, "learner", 2), **gang))

    async def running() -> list[str]:
        return [each for each in names if (await testbed.status(each)).get("phase") == "Running"]

    async def one_runs() -> bool:
        return bool(await running())

    await testbed.until(one_runs, "one of the two to run")
    (runs,) = await running()
    (waits,) = set(names) - {runs}
    return runs, waits


@pytest.mark.proves(
    "teams-gangs.md#gangs-of-the-cluster-s-schedulers/scheduler-plugins",
    "teams-gangs.md#gangs-of-the-cluster-s-schedulers/volcano",
    "cluster.md#scheduler-plugins",
)
@pytest.mark.usefixtures("scheduler")
@with_testbed
async def test_of_two_gangs_that_do_not_fit_together_one_runs_and_one_waits_whole(
    testbed: Testbed, namespace: str
) -> None:
    async with nodes(testbed, n1=2, n2=1), testbed.operator():
        runs, waits = await one_of_two(testbed, GANG)
        await refusal(testbed, waits, of="2 of 2 pods cannot run")
        # A third place is free: a scheduler of single pods would have given it away.
        assert await bound(testbed, waits) == []
        assert len(await bound(testbed, runs)) == 2

        for pod in await testbed.pods(runs):
            await testbed.kubelet.finish(namespace, pod)
        await testbed.phase(waits, "Running")
        assert len(await bound(testbed, waits)) == 2


def job_of_the_page(testbed: Testbed) -> Object:
    """The manifest of docs/how-to/teams-gangs.md, with a device for each pod, not processors."""
    block = re.search(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert block is not None
    # Written once in the page, by an alias; here the tasks differ.
    body: Object = json.loads(json.dumps(yaml.safe_load(block[1])))
    for each in body["spec"]["tasks"]:
        (container,) = each["template"]["spec"]["containers"]
        container["resources"] = {"limits": {resource(testbed): "1"}}
    return body


@pytest.mark.usefixtures("scheduler")
@with_testbed
async def test_the_job_of_the_page_starts_stage_by_stage(testbed: Testbed) -> None:
    async with nodes(testbed, n1=6), testbed.operator():
        staged = job_of_the_page(testbed)
        learner = staged["spec"]["tasks"][0]["template"]
        learner["metadata"] = {"annotations": {"fake/ready-after": LATER}}
        await testbed.submit(staged)

        async def first_stage_is_bound() -> bool:
            return len(await bound(testbed, "ppo")) == 2

        await testbed.until(first_stage_is_bound, "the first stage to be bound")
        assert await minimum(testbed, "ppo") == 2
        for name in await testbed.pods("ppo"):
            await testbed.kubelet.make_ready(testbed.namespace, name)
        await testbed.phase("ppo", "Running")
        assert await minimum(testbed, "ppo") == 6
        assert len(await bound(testbed, "ppo")) == 6


@pytest.mark.usefixtures("scheduler")
@with_testbed
async def test_what_is_added_to_a_job_is_bound_together_as_well(
    testbed: Testbed, namespace: str
) -> None:
    async with nodes(testbed, n1=2), testbed.operator():
        await testbed.submit(job("grows", devices(testbed, "collector", 1), **GANG))
        await testbed.phase("grows", "Running")
        uid = (await testbed.client.get(GROUPS, "grows", namespace))["metadata"]["uid"]
        await testbed.patch("grows", {"tasks": [devices(testbed, "collector", 3)]})
        await refusal(testbed, "grows")
        assert await minimum(testbed, "grows") == 3
        # A pod that the scheduler saw before it saw the new minimum is bound by the old one.
        assert "grows-collector-0" in await bound(testbed, "grows")

        await testbed.patch("grows", {"tasks": [devices(testbed, "collector", 2)]})
        await testbed.phase("grows", "Running")
        assert await minimum(testbed, "grows") == 2
        assert len(await bound(testbed, "grows")) == 2
        group = await testbed.client.get(GROUPS, "grows", namespace)
        assert group["metadata"]["uid"] == uid


def test_a_job_waits_for_a_kind_that_nothing_serves_and_starts_once_something_does(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        scheduling = {"gangScheduler": "volcano", "queue": "rl"}
        async with testbed.operator():
            learner = devices(testbed, "learner", 2)
            await testbed.submit(job("early", learner, scheduling=scheduling))
            status = await testbed.phase("early", "Pending")
            told = condition(status, "Pending")
            assert told["reason"] == "SchedulingKindMissing"
            assert "PodGroup (scheduling.volcano.sh/v1beta1) early: nothing" in told["message"]
            assert await testbed.pods("early") == {}
            await install_crd(kube_config, VOLCANO_KIND)
            await testbed.phase("early", "Starting")

            async def has_pods() -> bool:
                return len(await testbed.pods("early")) == 2

            await testbed.until(has_pods, "the pods to be made")
            group = await testbed.client.get(VOLCANO, "early", namespace)
            assert group["spec"]["minMember"] == 2
            assert group["spec"]["queue"] == "rl"
            for pod in (await testbed.pods("early")).values():
                assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "early"
                assert pod["spec"]["schedulerName"] == "volcano"
            # As Volcano's scheduler does.
            words = "2/2 tasks in gang unschedulable: queue resource quota insufficient"
            waits = {"type": "Unschedulable", "status": "True", "message": words}
            said = {"status": {"phase": "Pending", "conditions": [waits]}}
            await testbed.client.patch(VOLCANO, "early", said, namespace, subresource="status")

            async def is_told() -> bool:
                told = condition(await testbed.status("early"), "Starting")
                return told["reason"] == "PodGroupPending" and words in told["message"]

            await testbed.until(is_told, "the words of the group to be the job's")

    try:
        on_testbed(kube_config, namespace, body)
    finally:
        asyncio.run(_remove(kube_config, VOLCANO_KIND["metadata"]["name"]))


async def _remove(config: KubeConfig, name: str) -> None:
    async with KubeClient(config=config) as client:
        await client.delete(CRDS, name)
