"""Jobs in queues: the testbed of the operator, with webhook and Kueue, and its quota watched."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from di_api.names import LABEL_JOB, LABEL_QUEUE
from di_kube.config import KubeConfig
from di_kube.resources import WORKLOADS
from tests.fakes.kubelet import FakeKubelet
from tests.integration.kueue.installation import forget_workloads, installed, workloads
from tests.integration.kueue.kinds import (
    BY_KIND,
    CLUSTER_QUEUES,
    PREEMPTING,
    Object,
    cluster_queue,
    condition,
    is_admitted,
    local_queue,
    resource_flavor,
)
from tests.integration.kueue.quota import Usage, watched_usage
from tests.integration.operator_testbed import Testbed, job, on_testbed, task

OURS = "example.com/of"
"""The label of a test's own nodes: its namespace."""
ALL = "all"
"""The group of all pods of the namespace."""


def queued_job(
    name: str,
    queue: str,
    *,
    core: int = 1,
    extras: int = 0,
    cpu: str = "1",
    labels: Mapping[str, str] = {},
    notes: Mapping[str, str] = {},
    **spec: Any,
) -> Object:
    """A job of one task `work`: so many replicas that it needs, and so many that come and go.

    Args:
        name: of the job.
        queue: of Kueue.
        core: replicas that it needs.
        extras: replicas of its elastic tier.
        cpu: of each pod.
        labels: further ones of the job.
        notes: for the fake kubelet, without its `fake/`.
        spec: further fields.
    """
    work = task("work", core + extras)
    work["template"]["metadata"]["annotations"] = {
        f"fake/{key}": value for key, value in notes.items()
    }
    container = work["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": cpu}}
    if extras:
        work |= {"minReplicas": core, "maxReplicas": core + extras, "elastic": {}}
    body = job(name, work, **spec)
    body["metadata"]["labels"] = {LABEL_QUEUE: queue, **labels}
    return body


@dataclass(slots=True, kw_only=True)
class Bed:
    """A namespace with queues, and short words for what is in it.

    Attributes:
        testbed: with the operator.
        usage: what pods take, by queue and in all.
        queues: of jobs that were submitted, by the job's name.
    """

    testbed: Testbed
    usage: Usage
    queues: dict[str, str]
    flavor: str = ""
    _names: Counter[str] = field(default_factory=Counter)

    def name_of(self, queue: str) -> str:
        """The ClusterQueue of a LocalQueue: tests have the cluster's names to themselves."""
        return f"{queue}-{self.testbed.namespace}"

    @property
    def cohort(self) -> str:
        """Of the queues that lend to one another."""
        return f"cohort-{self.testbed.namespace}"

    @asynccontextmanager
    async def with_queues(
        self,
        *more: Object,
        cohort: bool = False,
        spec: Object | None = None,
        flavor: Object | None = None,
        **cpus: str,
    ) -> AsyncIterator[None]:
        """Queues of those names with so many cores each; their Workloads go when the block ends.

        Args:
            more: other objects that come first.
            cohort: whether they lend to one another.
            spec: fields of each ClusterQueue, in place of preemption.
            flavor: fields of the ResourceFlavor.
            cpus: by name.
        """
        self.flavor = f"flavor-{self.testbed.namespace}"
        bodies = [*more, resource_flavor(self.flavor, **(flavor or {}))]
        fields = {"preemption": PREEMPTING} if spec is None else spec
        for queue, cpu in cpus.items():
            name = self.name_of(queue)
            quota = {self.flavor: {"cpu": cpu}}
            shared = self.cohort if cohort else None
            bodies += [
                cluster_queue(name, quota, cohort=shared, **fields),
                local_queue(queue, name, self.testbed.namespace),
            ]
        async with installed(self.testbed.client, *bodies):
            try:
                yield
            finally:
                await forget_workloads(self.testbed.client, self.testbed.namespace)

    def node(self, name: str, cpu: int, **labels: str) -> FakeKubelet:
        """A node of so many cores, told from those of other tests by the label OURS."""
        return FakeKubelet(
            self.testbed.client,
            namespace=self.testbed.namespace,
            node=f"{self.testbed.namespace}-{name}",
            extended={"cpu": str(cpu)},
            labels={OURS: self.testbed.namespace, **labels},
        )

    async def submit(self, body: Object) -> None:
        name = body["metadata"]["name"]
        self.queues[name] = body["metadata"]["labels"][LABEL_QUEUE]
        await self.testbed.submit(body)

    async def set_quota(self, queue: str, cpu: str) -> None:
        """Give a queue another quota."""
        found = await self.testbed.client.get(CLUSTER_QUEUES, self.name_of(queue))
        groups = found["spec"]["resourceGroups"]
        groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = cpu
        await self.change(CLUSTER_QUEUES.kind, self.name_of(queue), resourceGroups=groups)

    async def change(self, kind: str, name: str, **spec: Any) -> None:
        """Change the spec of an object of Kueue."""
        resource = BY_KIND[kind]
        namespace = self.testbed.namespace if resource.namespaced else None
        await self.testbed.client.patch(resource, name, {"spec": spec}, namespace)

    async def workloads(self) -> dict[str, Object]:
        return await workloads(self.testbed.client, self.testbed.namespace)

    async def admitted(self) -> set[str]:
        """Names of the Workloads that are."""
        return {name for name, each in (await self.workloads()).items() if is_admitted(each)}

    async def running(self) -> dict[str, int]:
        """Pods that have not ended and are not being deleted, by job; not of jobs without any."""
        found: Counter[str] = Counter()
        for name in self.queues:
            pods = await self.testbed.pods(name)
            found[name] = sum(map(_is_live, pods.values()))
        return {name: count for name, count in found.items() if count}

    async def until_running(self, **pods: int) -> None:
        """Wait until exactly these jobs have so many pods, all of which Kueue has admitted."""

        async def is_so() -> bool:
            found = await self.running()
            assert found == pods, found
            return True

        await self.testbed.until(is_so, f"the pods {pods}")

    async def until_waiting(self, name: str, words: str) -> None:
        """Wait until Kueue says so of a job's core, and the job that it waits in its queue."""

        async def is_so() -> bool:
            workload = (await self.workloads())[f"{name}-core"]
            assert words in condition(workload, "QuotaReserved").get("message", ""), workload
            return await self.is_queued(name)

        await self.testbed.until(is_so, f"{name} to wait in its queue for {words!r}")

    async def is_queued(self, name: str) -> bool:
        """Whether a job says that it waits in its queue."""
        return condition(await self.testbed.job(name), "Queued").get("status") == "True"

    async def finish(self, name: str) -> None:
        """End all pods of a job well, and wait until it has succeeded."""
        for pod in await self.testbed.pods(name):
            await self.testbed.kubelet.finish(self.testbed.namespace, pod)
        await self.testbed.phase(name, "Succeeded")

    async def delete_workload(self, name: str) -> None:
        await self.testbed.client.delete(WORKLOADS, name, self.testbed.namespace)


def _is_live(pod: Object) -> bool:
    has_ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return not has_ended and "deletionTimestamp" not in pod["metadata"]


def on_bed(config: KubeConfig, namespace: str, body: Callable[[Bed], Awaitable[None]]) -> Usage:
    """Run `body` on a bed of its own, with no operator yet; returns what pods took."""
    queues: dict[str, str] = {}
    found: list[Usage] = []

    def groups(pod: Object) -> Iterator[str]:
        yield ALL
        queue = queues.get((pod["metadata"].get("labels") or {}).get(LABEL_JOB, ""))
        if queue is not None:
            yield queue

    async def main(testbed: Testbed) -> None:
        async with watched_usage(testbed.client, namespace, groups) as usage:
            found.append(usage)
            await body(Bed(testbed=testbed, usage=usage, queues=queues))

    on_testbed(config, namespace, main)
    return found[0]
