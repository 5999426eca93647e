"""An upgrade and its rollback, service by service, while jobs of every kind run and are scaled.

The version before is the one that still judged jobs that run. It makes the jobs; some of them the
present version would not admit, and one gets a field that only a later version would know.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import requests

from di_api import names
from di_api.validation import validate_job
from di_cluster.errors import ClusterError
from di_kube.config import KubeConfig
from di_kube.errors import ApiError, Throttled
from di_kube.resources import DIJOBS
from tests.fakes.kubelet import FakeKubelet
from tests.integration.conftest import ApiServer
from tests.integration.di_server import ServerProcess
from tests.integration.earlier import Version, earlier_version, present_version
from tests.integration.installation import UNCHECKED, Installation
from tests.integration.operator_testbed import (
    Object,
    Testbed,
    coordinated_job,
    job,
    on_testbed,
    replica,
    task,
)
from tests.waiting import wait_until_async

pytestmark = [pytest.mark.extended, pytest.mark.usefixtures("crd")]

V1 = replace(DIJOBS, version="v1alpha1")
CONTAINERS = {"containers": [{"name": "di-container", "image": "none"}]}
# Up and down while everything else changes.
SCALED = "scaled"
FIRST = {"scaled-learn-0", "scaled-collect-0", "scaled-collect-1"}
OF_OTHER_RULES = ("bounds", "amount")


def jobs(device: str) -> list[Object]:
    """One job of each kind, all admitted by the earlier version."""

    def on_devices(replicas: int) -> Object:
        body = task("work", replicas)
        body["template"]["spec"]["containers"][0]["resources"] = {"limits": {device: "1"}}
        return body

    amount = coordinated_job("amount", replica("amount-collector-bcdfg"))
    learner = deepcopy(CONTAINERS)
    # Never asked for: no pod could be made from it.
    learner["containers"][0]["resources"] = {"limits": {"memory": "10GB"}}  # type: ignore[assignment]
    amount["spec"]["coordinated"]["learner"] = {"template": {"spec": learner}}
    older = {
        "apiVersion": f"{names.GROUP}/{V1.version}",
        "kind": names.KIND,
        "metadata": {"name": "older"},
        "spec": {role: {"template": {"spec": CONTAINERS}} for role in ("coordinator", "collector")},
    }
    later = job("later", task())
    later["metadata"]["labels"] = {UNCHECKED: "yes"}
    return [
        job(SCALED, task("learn"), task("collect", 2, depends_on=("learn",)) | {"maxReplicas": 9}),
        job("preemptible", on_devices(2), preemptible=True),
        job("gang", on_devices(2), scheduling={"gang": True}),
        job("suspended", task(), suspend=True),
        job("bounds", task() | {"maxReplicas": 100_000}),
        coordinated_job("coordinated", replica("coordinated-collector-bcdfg")),
        *(amount, older, later),
    ]


def with_later_field(version: Version) -> Version:
    """A version whose definition knows a field more than its services do."""
    definition = deepcopy(version.definition)
    (stored,) = (each for each in definition["spec"]["versions"] if each["storage"])
    spec = stored["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["flavour"] = {"type": "string"}
    return replace(version, definition=definition)


@dataclass(slots=True, kw_only=True)
class Load:
    """What users and jobs go on doing; `failures` are the answers nobody should have got."""

    installation: Installation
    testbed: Testbed
    done: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    throttled: Counter[str] = field(default_factory=Counter)
    """How often the API server asked to come again, by its own words."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The load, while the block runs; a story that breaks off ends the block with its error."""
        stories = (self._admissions(), self._changes(), self._scaling())
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(story) for story in stories]
            yield
            for each in tasks:
                each.cancel()

    async def goes_on(self) -> None:
        """Wait until everything was done twice more: once of it after now, from begin to end."""
        before = Counter(self.done)

        def is_done() -> bool:
            assert before, "nothing was done so far"
            behind = sorted(what for what in before if self.done[what] < before[what] + 2)
            assert not behind, f"not done twice more: {behind}; throttled: {self.throttled}"
            return True

        await wait_until_async(is_done, what="the load to go on")
        assert self.failures == []

    async def _admissions(self) -> None:
        """New jobs. They are suspended: only their admission matters."""
        for number in count():
            body = job(f"new-{number}", task(), suspend=True)
            await self._try("create", partial(self.testbed.submit, body))
            await self._try("delete", partial(self.testbed.delete, body["metadata"]["name"]))
            await asyncio.sleep(0.2)

    async def _changes(self) -> None:
        """Labels, one of them through an older version, and a status that others write too."""
        patch, namespace = self.testbed.client.patch, self.testbed.namespace
        for number in count():
            labels = {"metadata": {"labels": {"tests/number": str(number)}}}
            for name in OF_OTHER_RULES:
                await self._try(name, partial(patch, DIJOBS, name, labels, namespace))
            await self._try("older", partial(patch, V1, "older", labels, namespace))
            report = {"status": {"profilings": {"step": number}}}
            write = partial(patch, DIJOBS, "gang", report, namespace, subresource="status")
            await self._try("report", write)
            await asyncio.sleep(0.2)

    async def _scaling(self) -> None:
        """One pod more, one pod less."""

        def send(method: str, server: ServerProcess) -> None:
            url = f"{server.url}/v2alpha1/job/{self.testbed.namespace}/{SCALED}/replicas"
            body = {"replicas": 1, "task": "collect"}
            key = {"Idempotency-Key": secrets.token_hex(8)}
            answer = requests.request(method, url, json=body, headers=key, timeout=60)
            while answer.status_code == 503 and "(Timeout)" in answer.text:
                # The API server of a busy machine: the request comes again, and counts once.
                self.throttled[f"{method} replicas"] += 1
                time.sleep(float(answer.headers["Retry-After"]))
                answer = requests.request(method, url, json=body, headers=key, timeout=60)
            if answer.status_code != 200:
                self.failures.append(f"{method} replicas: {answer.status_code} {answer.text}")
            self.done[method] += 1

        while True:
            for method in ("POST", "DELETE"):
                async with self.installation.server() as server:
                    await asyncio.to_thread(send, method, server)
                await asyncio.sleep(0.2)

    async def _try(self, what: str, call: Callable[[], Awaitable[Any]]) -> None:
        while True:
            try:
                await call()
            except Throttled as error:
                # While the API server takes a new definition, which every client waits for.
                self.throttled[f"{what}: {error}"] += 1
                await asyncio.sleep(error.retry_after or 0.2)
                continue
            except ApiError as error:
                self.failures.append(f"{what}: {error}")
            self.done[what] += 1
            return


async def told(testbed: Testbed) -> set[str]:
    """The jobs whose condition says that their spec would not be admitted."""
    found, _ = await testbed.client.list(DIJOBS, testbed.namespace)
    return {
        body["metadata"]["name"]
        for body in found
        for one in (body.get("status") or {}).get("conditions") or ()
        if (one["type"], one["status"]) == ("SpecInvalid", "True")
    }


async def refused(testbed: Testbed) -> set[str]:
    """The jobs that run and would not be admitted by the present version."""
    found, _ = await testbed.client.list(DIJOBS, testbed.namespace)
    running = (body for body in found if (body.get("status") or {}).get("phase") != "Pending")
    return {body["metadata"]["name"] for body in running if validate_job(body)}


@pytest.mark.proves("operations.md#upgrade-and-rollback")
def test_an_upgrade_and_its_rollback_under_load_touch_no_job(
    api_server: ApiServer, kube_config: KubeConfig, namespace: str, tmp_path: Path
) -> None:
    earlier, present = earlier_version(), with_later_field(present_version())
    device = f"example.org/{namespace}"

    async def body(testbed: Testbed) -> None:
        async with (
            FakeKubelet(testbed.client, namespace=namespace, extended={device: "9"}),
            AsyncExitStack() as stack,
        ):
            await live_through(
                Installation(testbed=testbed, api_server=api_server, folder=tmp_path, stack=stack)
            )

    async def live_through(installation: Installation) -> None:
        testbed = installation.testbed
        await installation.install(earlier)
        made = [each["metadata"]["name"] for each in jobs(device)]
        for each in jobs(device):
            resource = V1 if each["apiVersion"].endswith(V1.version) else DIJOBS
            await testbed.client.create(resource, each, namespace)
        await testbed.phase("suspended", "Pending")
        running = [name for name in made if name != "suspended"]
        for name in running:
            await testbed.phase(name, "Running")
        first = await uids(testbed, running)

        load = Load(installation=installation, testbed=testbed)
        async with load.running():
            await roll(installation, present, load)
            await testbed.patch("later", {"flavour": "new"})
            wanted = await refused(testbed)
            assert wanted >= {"later", "bounds"}
            await testbed.until(told_are(testbed, wanted), "the jobs of other rules to be told")
            await load.goes_on()
            await roll(installation, earlier, load)
            assert "flavour" not in (await testbed.job("later"))["spec"]
        assert load.failures == []

        await testbed.phase(SCALED, "Running")
        assert await uids(testbed, running) == first
        for name in running:
            status = await testbed.status(name)
            assert (status["phase"], status["restarts"]) == ("Running", 0), name
            assert status["reschedules"] == 0 or name == SCALED, name
            assert not {"Failed", "Restarting"} & set(testbed.phases[name]), testbed.phases[name]
        again = {pod for pod, times in testbed.created.items() if times > 1}
        assert all(pod.startswith("scaled-collect-") for pod in again - FIRST), again
        assert not again & FIRST

    on_testbed(kube_config, namespace, body)


def told_are(testbed: Testbed, wanted: set[str]) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return await told(testbed) == wanted

    return check


async def roll(installation: Installation, version: Version, load: Load) -> None:
    """Bring all to a version in the order of a release; the load meets every mixture of both."""
    await installation.define(version)
    await load.goes_on()
    services = await installation.start(version)
    for replace_one in (
        installation.replace_webhook,
        installation.replace_server,
        installation.replace_operator,
    ):
        await replace_one(services)
        await load.goes_on()


async def uids(testbed: Testbed, running: list[str]) -> dict[str, str]:
    """The pods of the jobs, but for those that scaling adds."""
    pods = [pod for name in running for pod in (await testbed.pods(name)).items()]
    return {
        name: body["metadata"]["uid"]
        for name, body in pods
        if name in FIRST or not name.startswith(f"{SCALED}-")
    }


def test_without_the_history_the_reason_is_said() -> None:
    with pytest.raises(ClusterError, match="git fetch --unshallow"):
        earlier_version("0" * 40)
