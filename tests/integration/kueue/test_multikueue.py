"""A job that MultiKueue has run in another cluster, with the real one: two API servers, a Kueue and
an operator beside each."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from di_api.names import DISPATCHER
from di_kube.config import KubeConfig, load_config
from di_kube.errors import AlreadyExists, ApiError, Invalid, NotFound
from di_kube.resources import DIJOBS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from tests.integration.accounts import OPERATOR, installed_accounts
from tests.integration.conftest import named_namespace
from tests.integration.kueue.bed import Bed, on_bed, queued_job
from tests.integration.kueue.installation import (
    KueueServer,
    forget_workloads,
    installed,
    kueue_api_server,
    workloads,
)
from tests.integration.kueue.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, Object, condition
from tests.integration.kueue.pages import manifests, read_page
from tests.integration.kueue.process import NAMESPACE
from tests.integration.operator_testbed import Testbed, open_testbed
from tests.integration.service_accounts import granted_everywhere
from tests.ports import held_port
from tools.faults.plan import ANY, EACH, Fault, Kill, Request
from tools.faults.scene import Replica

pytestmark = pytest.mark.usefixtures("admission")


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KueueServer]:
    """The cluster that jobs are sent to."""
    with kueue_api_server("worker", tmp_path_factory.mktemp("worker")) as server:
        yield server


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """The manager's, where users are, and the worker's, with a queue of three cores."""

    manager: Bed
    worker: Testbed

    async def running(self, name: str) -> set[str]:
        """Names of the pods of a job that are not being deleted."""
        pods = await self.worker.pods(name)
        return {pod for pod, body in pods.items() if "deletionTimestamp" not in body["metadata"]}

    async def until(self, name: str, phase: str, reason: str | None = None) -> Object:
        """Wait until the manager's job says so; returns its status."""

        async def is_so() -> bool:
            status = await self.manager.testbed.status(name)
            found = {each["reason"] for each in status.get("conditions", ())}
            return status.get("phase") == phase and (reason is None or reason in found)

        await self.manager.testbed.until(is_so, f"{name} to be {phase} ({reason}) at the manager")
        return await self.manager.testbed.status(name)

    async def until_has(self, name: str, pods: set[str]) -> None:
        """Wait until a job has those pods at the worker and no others."""

        async def is_so() -> bool:
            return (await self.running(name)) == pods

        await self.worker.until(is_so, f"{name} to have {', '.join(sorted(pods))}")

    async def until_idle(self, name: str) -> None:
        """Wait until none of its pods runs at the worker."""

        async def is_idle() -> bool:
            pods = (await self.worker.pods(name)).values()
            return not any(pod["status"]["phase"] == "Running" for pod in pods)

        await self.worker.until(is_idle, f"the pods of {name} to end")

    async def drain(self, name: str) -> set[str]:
        """Have the worker's queue ask back what it admitted, and wait until the job waits at the
        manager and none of its pods runs; returns the UIDs of those that ran.

        The job may wait at the worker as well: Kueue removes it from there unless the manager's
        queue has admitted it again by then, which at once it may.
        """
        before = await self._uids(name)
        await self.stop_policy("HoldAndDrain")
        await self.until(name, "Pending", "JobQueued")
        await self.until_idle(name)
        return before

    async def until_running_again(self, name: str, before: set[str]) -> None:
        """Wait until other pods than those run at the worker, and the job here says so.

        Without looking at the pods that may once more be the status from before they ended.
        """

        async def is_running() -> bool:
            there = await self._uids(name)
            return bool(there) and there.isdisjoint(before)

        await self.worker.until(is_running, f"{name} to run again")
        await self.until(name, "Running")

    async def _uids(self, name: str) -> set[str]:
        """Of its pods that run."""
        pods = (await self.worker.pods(name)).values()
        return {pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] == "Running"}

    async def until_stopped(self, name: str) -> None:
        """Wait until a job is gone from the worker, and none of its pods runs there."""
        await self.until_idle(name)
        await self.worker.until(lambda: _is_away(self.worker, name), f"{name} to be gone")

    async def until_forgotten(self, name: str) -> None:
        """Wait until its Workload is gone from there as well."""
        await self.until_stopped(name)

        async def is_forgotten() -> bool:
            there = await workloads(self.worker.client, self.worker.namespace)
            return f"{name}-core" not in there

        await self.worker.until(is_forgotten, f"the worker's Workload of {name} to go")

    async def stop_policy(self, policy: str) -> None:
        """What becomes of the jobs in the worker's queue."""
        spec = {"stopPolicy": policy}
        await self.worker.client.patch(CLUSTER_QUEUES, self.worker.namespace, {"spec": spec})


async def _is_away(testbed: Testbed, name: str) -> bool:
    try:
        await testbed.client.get(DIJOBS, name, testbed.namespace)
    except NotFound:
        return True
    return False


def _sent(name: str, **fields: Any) -> Object:
    return queued_job(name, "training", managedBy=DISPATCHER, **fields)


def _page(part: str, namespace: str) -> list[Object]:
    """The manifests of the page for one part, with names of the test's own."""
    text = read_page("how-to/teams-clusters.md").replace("team-rl", namespace)
    return manifests(text.replace("east", f"east-{namespace}"), f"{Path(__file__).name}: {part}")


@asynccontextmanager
async def _worker_queue(testbed: Testbed) -> AsyncIterator[str]:
    """What the page has for a worker; a token of who may make jobs there."""
    client, namespace = testbed.client, testbed.namespace
    *queues, role = _page("worker", namespace)
    name = role["metadata"]["name"]
    account = {"metadata": {"name": name}}
    await client.create(SERVICE_ACCOUNTS, account, namespace)
    made = await client.create(
        SERVICE_ACCOUNTS, {**account, "spec": {}}, namespace, subresource="token"
    )
    async with (
        granted_everywhere(client, namespace, name, name, role["rules"]),
        installed(client, *queues),
    ):
        try:
            yield made["status"]["token"]
        finally:
            await forget_workloads(client, namespace)


@asynccontextmanager
async def _way_to_worker(testbed: Testbed, worker: KueueServer, token: str) -> AsyncIterator[None]:
    """What the page has for the manager, with a kubeconfig for the worker."""
    client, bodies = testbed.client, _page("manager", testbed.namespace)
    found = {body["kind"]: body["metadata"]["name"] for body in bodies}
    kubeconfig = json.loads(Path(worker.cluster.kubeconfig).read_text())
    kubeconfig["users"] = [{"name": kubeconfig["users"][0]["name"], "user": {"token": token}}]
    text = base64.b64encode(json.dumps(kubeconfig).encode()).decode()
    secret = {"metadata": {"name": found["MultiKueueCluster"]}, "data": {"kubeconfig": text}}
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await client.create(SECRETS, secret, NAMESPACE)
    async with installed(client, *bodies):

        async def is_connected() -> bool:
            check = await client.get(ADMISSION_CHECKS, found["AdmissionCheck"])
            return condition(check, "Active").get("status") == "True"

        await testbed.until(is_connected, "MultiKueue to reach the worker")
        try:
            yield
        finally:
            await forget_workloads(client, testbed.namespace)
    await client.delete(SECRETS, secret["metadata"]["name"], NAMESPACE)


def on_clusters(
    config: KubeConfig,
    worker: KueueServer,
    namespace: str,
    folder: Path,
    body: Callable[[Clusters], Awaitable[None]],
    *,
    faults: Sequence[Fault] = (),
) -> None:
    """Run `body` with an operator in each of the clusters, that of the worker with its own account
    as the chart has it; `folder` is for that. `faults` strike both of them."""

    @asynccontextmanager
    async def operator(access: KubeConfig, where: str) -> AsyncIterator[None]:
        with held_port() as port:
            replica = Replica(
                access,
                folder / where,
                namespace=namespace,
                identity="one",
                port=port,
                faults=faults,
            )
            async with replica.proxy:
                replica.start()
                try:
                    yield
                finally:
                    await replica.stop()

    async def main(bed: Bed, account: KubeConfig) -> None:
        async with (
            open_testbed(worker.config, namespace) as there,
            _worker_queue(there) as token,
            _way_to_worker(bed.testbed, worker, token),
            operator(config, "manager"),
            operator(account, "worker"),
        ):
            await body(Clusters(manager=bed, worker=there))

    with (
        named_namespace(worker.config, namespace),
        installed_accounts(worker.cluster, namespace, folder) as accounts,
    ):
        account = load_config(str(accounts.kubeconfig(OPERATOR)))
        on_bed(config, namespace, lambda bed: main(bed, account))


@pytest.mark.proves(
    "teams.md#feature-by-feature/several-clusters", "teams-clusters.md#what-has-to-be-installed"
)
def test_a_job_runs_in_the_cluster_that_admits_it_and_is_seen_where_it_was_made(
    kube_config: KubeConfig, worker: KueueServer, namespace: str, tmp_path: Path
) -> None:
    async def body(clusters: Clusters) -> None:
        here, there = clusters.manager, clusters.worker
        (job,) = _page("job", there.namespace)
        await here.submit(job)
        status = await clusters.until("ppo", "Running")
        assert status["readyReplicas"] == 2
        assert await clusters.running("ppo") == {"ppo-learner-0", "ppo-collector-0"}
        assert await here.running() == {}
        # What the worker's operator was given is its own: its pods hold the quota.
        remote = (await workloads(there.client, there.namespace))["ppo-core"]
        assert [owner["name"] for owner in remote["metadata"]["ownerReferences"]] == ["ppo"]
        # One core is left there, and eight here.
        await here.submit(_sent("b", core=2))
        await clusters.until("b", "Pending", "JobQueued")
        assert await clusters.running("b") == set()
        for pod in await clusters.running("ppo"):
            await there.kubelet.finish(there.namespace, pod)
        await clusters.until("ppo", "Succeeded")
        await clusters.until_forgotten("ppo")
        await clusters.until("b", "Running")

    on_clusters(kube_config, worker, namespace, tmp_path, body)


def test_what_the_worker_takes_back_waits_and_runs_again(
    kube_config: KubeConfig, worker: KueueServer, namespace: str, tmp_path: Path
) -> None:
    async def body(clusters: Clusters) -> None:
        here = clusters.manager
        await here.submit(_sent("a", core=2))
        await clusters.until("a", "Running")
        before = await clusters.drain("a")
        await clusters.stop_policy("None")
        await clusters.until_running_again("a", before)
        # The worker would not hear of it.
        with pytest.raises(ApiError, match="suspend it first"):
            await _resize(here.testbed, 1)
        await here.testbed.until(lambda: _resize_unnoticed(here.testbed, 1), "its change to pass")
        await clusters.until_has("a", {"a-work-0"})
        await clusters.until("a", "Running")
        # A user's own suspension, as `di suspend` writes it.
        suspended = {"metadata": {"annotations": {"diengine/suspended-by": None}}}
        await here.testbed.client.patch(DIJOBS, "a", suspended, here.testbed.namespace)
        await clusters.until("a", "Pending", "JobSuspended")
        await clusters.until_forgotten("a")
        await _resize(here.testbed, 2)
        await here.testbed.patch("a", {"suspend": False})
        await clusters.until("a", "Running")
        assert await clusters.running("a") == {"a-work-0", "a-work-1"}
        await here.testbed.delete("a")
        await clusters.until_forgotten("a")

        async def is_forgotten() -> bool:
            return not await here.workloads()

        await here.testbed.until(is_forgotten, "the manager's Workload to go")

    on_clusters(kube_config, worker, namespace, tmp_path, body)


KILLED_AT = (
    ("create", "workloads"),
    ("patch", "workloads"),
    ("patch", "workloads/status"),
    ("delete", "workloads"),
    ("patch", "dijobs/status"),
    ("create", "services"),
    ("create", "pods"),
    ("patch", "pods"),
    ("delete", "pods"),
)


def test_operators_that_are_killed_at_each_of_their_writes_come_to_the_same_end(
    kube_config: KubeConfig, worker: KueueServer, namespace: str, tmp_path: Path
) -> None:
    """What they had written has been carried out; they never hear of that."""

    async def body(clusters: Clusters) -> None:
        here, there = clusters.manager, clusters.worker
        await here.submit(_sent("a", core=2))
        await clusters.until("a", "Running")
        assert await clusters.running("a") == {"a-work-0", "a-work-1"}
        before = await clusters.drain("a")
        await clusters.stop_policy("None")
        await clusters.until_running_again("a", before)
        for pod in await clusters.running("a"):
            await there.kubelet.finish(there.namespace, pod)
        status = await clusters.until("a", "Succeeded")
        assert status.get("restarts", 0) == 0
        await clusters.until_forgotten("a")

    each = (Request(verb=verb, what=what, name=ANY, nth=EACH) for verb, what in KILLED_AT)
    faults = [Fault(at=request, do=Kill(answered=False)) for request in each]
    on_clusters(kube_config, worker, namespace, tmp_path, body, faults=faults)


async def _resize_unnoticed(testbed: Testbed, replicas: int) -> bool:
    """Change it as if that came so shortly after it was sent that its status tells of its queue
    still; False if the status from there came in between."""
    conditions = (await testbed.status("a"))["conditions"]
    told = [each | ({"status": "True"} if each["type"] == "Queued" else {}) for each in conditions]
    status = {"status": {"conditions": told}}
    await testbed.client.patch(DIJOBS, "a", status, testbed.namespace, subresource="status")
    with suppress(Invalid):
        await _resize(testbed, replicas)
        return True
    return False


async def _resize(testbed: Testbed, replicas: int) -> None:
    work = (await testbed.job("a"))["spec"]["tasks"][0]
    await testbed.patch("a", {"tasks": [{**work, "replicas": replicas}]})
