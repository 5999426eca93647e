"""Two hundred objects that cannot be read beside fifty good jobs, which notice nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import requests
import yaml

from di_api.kube.config import KubeConfig
from di_api.kube.errors import Invalid, NotFound
from di_api.kube.resources import DIJOBS, NODES
from tests.integration.conftest import CRD_FILE, ApiServer, install_crd
from tests.integration.di_server import ServerProcess, running_server
from tests.integration.operator_testbed import (
    Testbed,
    coordinated_job,
    job,
    on_testbed,
    replica,
    task,
)
from tests.integration.poison import loosened, poisonous_jobs, strangers
from tests.waiting import wait_until_async

pytestmark = pytest.mark.extended

Object = dict[str, Any]
GOOD, BAD, STRANGERS = 50, 160, 40


@pytest.fixture
def server(
    api_server: ApiServer, crd: str, namespace: str, tmp_path: Path
) -> Iterator[ServerProcess]:
    """A di-server of this namespace; at its end no log of it may have a traceback."""
    with running_server(tmp_path, api_server.kubeconfig, watch_namespace=namespace) as server:
        yield server


async def run_good_jobs(testbed: Testbed, name: str) -> None:
    """Run fifty jobs to their end."""
    names = [f"{name}-{number}" for number in range(GOOD)]
    for number, each in enumerate(names):
        preemptible = number % 5 == 0
        body = job(each, task(replicas=2, run_for="0.2"), preemptible=preemptible)
        await testbed.submit(body)
    for each in names:
        await testbed.phase(each, "Succeeded")
    for each in names:
        status = await testbed.status(each)
        assert (status["restarts"], status["reschedules"]) == (0, 0), each
        assert testbed.created[f"{each}-work-0"] == 1


async def store_poison(testbed: Testbed, config: KubeConfig, victim: str) -> None:
    """Store it all under a definition that lets everything pass, then put the real one back."""
    definition = yaml.safe_load(CRD_FILE.read_text())
    await install_crd(config, loosened(definition))
    try:
        for body in poisonous_jobs(BAD):
            status = body.pop("status", None)
            made = await stored(testbed, body)
            if status is not None:
                name = made["metadata"]["name"]
                patch = {"status": status}
                await testbed.client.patch(
                    DIJOBS, name, patch, testbed.namespace, subresource="status"
                )
    finally:
        await install_crd(config, definition)
    for resource, body in strangers(victim, STRANGERS, testbed.kubelet.node):
        where = testbed.namespace if resource != NODES else None
        await testbed.client.create(resource, body, where)


async def stored(testbed: Testbed, body: Object) -> Object:
    """Create a job; the API server serves a changed definition a moment after it has stored it."""

    async def created() -> Object | None:
        try:
            return await testbed.client.create(DIJOBS, body, testbed.namespace)
        except Invalid:
            return None

    made = await wait_until_async(created, what="the loosened definition to be served")
    assert made is not None
    return made


async def clear_nodes(testbed: Testbed, victim: str) -> None:
    for resource, body in strangers(victim, STRANGERS, testbed.kubelet.node):
        if resource == NODES:
            try:
                await testbed.client.delete(NODES, body["metadata"]["name"])
            except NotFound:
                continue


async def metric(port: int, name: str) -> float:
    """A sample of the operator's metrics; the sum of those of one name."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        lines = (await answer.text()).splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def test_good_jobs_run_beside_two_hundred_objects_that_cannot_be_read(
    kube_config: KubeConfig, namespace: str, server: ServerProcess
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator(policy="goodput", scheduling_period=1.0) as operator:
            await run_good_jobs(testbed, "clean")
            await testbed.submit(job("victim", task(replicas=2), preemptible=True))
            await testbed.phase("victim", "Running")
            await testbed.submit(coordinated_job("led", replica("led-collector-bcdfg")))
            await testbed.phase("led", "Running")
            pods = set(await testbed.pods("victim"))
            try:
                await store_poison(testbed, kube_config, "victim")
                await run_good_jobs(testbed, "poisoned")
            finally:
                await clear_nodes(testbed, "victim")

            assert not operator.task.done()
            assert await metric(operator.port, "di_operator_duty_failures_total") == 0
            assert await metric(operator.port, "di_operator_unreadable{") > 0
            status = await testbed.status("victim")
            assert (status["phase"], status["restarts"], status["reschedules"]) == (
                "Running",
                0,
                0,
            )
            assert pods <= set(await testbed.pods("victim"))
            await every_bad_job_says_what_is_wrong(testbed)
            await asyncio.to_thread(the_server_answers_from_memory, testbed.namespace, server)

    on_testbed(kube_config, namespace, body)


async def every_bad_job_says_what_is_wrong(testbed: Testbed) -> None:
    """Each is told in its own conditions; none is without a word."""

    async def all_are_told() -> bool:
        jobs, _ = await testbed.client.list(DIJOBS, testbed.namespace)
        bad = [each for each in jobs if each["metadata"]["name"].startswith("bad-")]
        told = Counter(isinstance(_message(each), str) for each in bad)
        assert told == {True: BAD}, [
            each["metadata"]["name"] for each in bad if not isinstance(_message(each), str)
        ]
        return True

    await testbed.until(all_are_told, "every bad job to say what is wrong")


def _message(body: Object) -> object:
    conditions = (body.get("status") or {}).get("conditions")
    if not isinstance(conditions, list):
        return None
    return next((each.get("message") for each in conditions if each["status"] == "True"), None)


def the_server_answers_from_memory(namespace: str, server: ServerProcess) -> None:
    """Everything there is has been seen, and each good job can be asked about."""
    listed = requests.get(
        f"{server.url}/v1alpha1/replicas", params={"namespace": namespace}, timeout=60
    )
    assert listed.status_code == 200, listed.text
    assert "led-coordinator" in [each["coordinator"] for each in listed.json()["data"]]
    asked = requests.get(f"{server.url}/v2alpha1/{namespace}.victim/replicas", timeout=60)
    assert (asked.status_code, len(asked.json()["data"])) == (200, 2)
    metrics = requests.get(f"{server.url}/metrics", timeout=60).text
    watched = [line for line in metrics.splitlines() if line.startswith("di_server_watched_obj")]
    assert watched
    assert not any(line.endswith("NaN") for line in watched if "dijobs" in line or "pods" in line)
