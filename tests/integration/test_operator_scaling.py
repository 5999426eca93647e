"""Changing the number of replicas while a job runs."""

from __future__ import annotations

import pytest

from di_api.kube.config import KubeConfig
from tests.integration.operator_field import Field, Object, job, on_field, task

pytestmark = pytest.mark.usefixtures("crd")


def tasks(collectors: int) -> list[Object]:
    return [task("learn"), task("collect", collectors), task("judge")]


def test_scaling_out_and_in_keeps_the_ranks_of_those_that_stay(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async def runs_with(replicas: int) -> bool:
            status = await field.status("a")
            seen = status["phase"], status["replicas"], status["readyReplicas"]
            return seen == ("Running", replicas, replicas)

        async with field.operator():
            await field.submit(job("a", *tasks(2)))
            await field.phase("a", "Running")
            first = await field.ranks("a")
            uids = {name: pod["metadata"]["uid"] for name, pod in (await field.pods("a")).items()}

            await field.patch("a", {"tasks": tasks(4)})
            await field.until(lambda: runs_with(6), "six ready replicas")
            assert await field.ranks("a") == {**first, "a-collect-2": 4, "a-collect-3": 5}

            await field.patch("a", {"tasks": tasks(1)})
            await field.until(lambda: runs_with(3), "three ready replicas")
            kept = {name: rank for name, rank in first.items() if name != "a-collect-1"}
            assert await field.ranks("a") == kept

            await field.patch("a", {"tasks": tasks(2)})
            await field.until(lambda: runs_with(4), "four ready replicas")
            assert await field.ranks("a") == first

            pods = await field.pods("a")
            assert all(pods[name]["metadata"]["uid"] == uids[name] for name in kept)
            status = await field.status("a")
            assert status["restarts"] == 0
            assert status["reschedules"] == 3
            assert "Rescheduling" in field.phases["a"]

    on_field(kube_config, namespace, body)


def test_the_replicas_of_a_large_job_cost_one_create_each(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(job("a", task(replicas=120)))
            status = await field.phase("a", "Running", deadline=60)
            assert status["readyReplicas"] == 120
            assert set(field.created.values()) == {1}
            assert len(field.created) == 120
            assert sorted((await field.ranks("a")).values()) == list(range(120))

    on_field(kube_config, namespace, body)
