"""Operators behind proxies in a namespace of their own, and a user who gives them work."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from di_kube.config import KubeConfig
from di_kube.resources import DIJOBS, PODS
from tests.failures.sources import SOURCES, Source
from tests.integration.kueue.installation import until_answered
from tests.integration.kueue.kinds import (
    BY_KIND,
    CLUSTER_QUEUES,
    cluster_queue,
    local_queue,
    resource_flavor,
)
from tests.ports import held_port
from tests.waiting import DEADLINE, START_SECONDS, wait_until_async
from tools.faults.component import Component, Life
from tools.faults.interruption import Aftermath, Interruption
from tools.faults.journal import Done
from tools.faults.plan import Fault, Freeze, Kill, Stop
from tools.faults.proxy import FaultProxy
from tools.faults.stage import JOB
from tools.faults.testbed import Object, Testbed

# Seconds; short, because the poll is what repairs events that never came.
SYNC_PERIOD = 3.0
# Seconds after which a kubelet would start a container again that ended on its own.
_RESTART_PAUSE = 1.0
CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap", "resource": "configmaps"}
"""What jobs may bring along."""
QUEUE = "team"
_HELD = "fake/held"
_numbers = itertools.count(1)


class Replica:
    """One operator behind its own proxy; like a kubelet, starts it again when it ends.

    Args:
        config: its access to the API server.
        folder: where its log goes, below.
        namespace: its own, and the one that it works for.
        identity: among the replicas.
        port: for its probes.
        faults: what is to go wrong.
    """

    def __init__(
        self,
        config: KubeConfig,
        folder: Path,
        *,
        namespace: str,
        identity: str,
        port: int,
        faults: Sequence[Fault],
    ) -> None:
        self._folder = folder / identity
        self._namespace = namespace
        self._retired = False
        self._background: set[asyncio.Task[None]] = set()
        self._component: Component | None = None
        self.interruption: Interruption | None = None
        """The last one by a plan."""
        self.identity = identity
        self.health = f"127.0.0.1:{port}"
        self.proxy = FaultProxy(
            config,
            component=f"{namespace}-{identity}",
            faults=faults,
            end=self._end,
            clock=time.monotonic,
        )

    def start(self) -> None:
        """Start the operator; the proxy must be up."""
        environment = {
            "DI_OPERATOR_NAMESPACE": self._namespace,
            "DI_OPERATOR_WATCH_NAMESPACE": self._namespace,
            "DI_OPERATOR_IDENTITY": self.identity,
            "DI_OPERATOR_HEALTH_BIND": self.health,
            "DI_OPERATOR_SYNC_PERIOD": str(SYNC_PERIOD),
            "DI_OPERATOR_COMPANION_KINDS": json.dumps([CONFIG_MAPS]),
        }
        self._component = Component(
            folder=self._folder,
            server=self.proxy.url,
            environment=environment,
            on_end=self._ended,
        )
        self._component.start()

    @property
    def component(self) -> Component:
        assert self._component is not None
        return self._component

    @property
    def is_settled(self) -> bool:
        """No restart and no freeze is under way."""
        return not self._background

    @property
    def leads(self) -> bool:
        """Whether it has ever written the lease of its replicas."""
        return bool(self.renewals)

    @property
    def renewals(self) -> list[float]:
        """When it has written the lease of its replicas, in monotonic seconds."""
        return [
            done.at
            for done in self._lease_requests
            if done.request.is_write and 200 <= done.code < 300
        ]

    @property
    def knows_lease_since(self) -> float | None:
        """When it first read the lease of its replicas, in monotonic seconds."""
        return next((done.at for done in self._lease_requests), None)

    @property
    def stands_by(self) -> bool:
        """Whether the process that runs now has asked for the lease of its replicas."""
        life = self.component.life
        asked = any(done.at > life.started_at for done in self._lease_requests)
        return asked and life.exit_code is None

    @property
    def _lease_requests(self) -> list[Done]:
        return [
            done
            for done in self.proxy.journal.requests
            if (done.request.what, done.request.name) == ("leases", "di-operator")
        ]

    def retire(self) -> None:
        """Do not start it again, however it ends."""
        self._retired = True

    async def bring_back(self) -> None:
        """Start it again once it has ended after `retire`."""
        await self.component.ended()
        self._retired = False
        self.component.start()
        self.proxy.revive()

    async def stop(self) -> None:
        """Stop it for good, as SIGTERM does.

        Raises:
            TimeoutError: it does not end; it is killed then.
        """
        self.retire()
        await asyncio.gather(*self._background)
        self.component.signal(signal.SIGTERM)
        try:
            await self.component.ended()
        except TimeoutError:
            self.component.signal(signal.SIGKILL)
            raise

    def _end(self, action: Kill | Stop | Freeze) -> None:
        match action:
            case Kill(back=back):
                if not back:
                    self.retire()
                self.component.signal(signal.SIGKILL)
            case Stop():
                self.retire()
                self.interruption = Interruption(action, self.component.life)
                self.component.signal(signal.SIGTERM)
            case Freeze(seconds=seconds):
                self.interruption = Interruption(action, self.component.life)
                self._start(self._freeze(self.component.life, seconds))

    async def _freeze(self, life: Life, seconds: float) -> None:
        life.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            life.signal(signal.SIGCONT)

    def _ended(self, exit_code: int) -> None:
        if self._retired:
            return
        # Whoever was killed by a plan is back at once: later, and less of the window is left.
        pause = _RESTART_PAUSE if exit_code > 0 else 0.0
        self._start(self._come_back(pause))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _come_back(self, pause: float) -> None:
        await asyncio.sleep(pause)
        if not self._retired:
            self.component.start()
            self.proxy.revive()


class Scene:
    """The user of a workload, who sees the API server itself (see `stage.Stage`)."""

    def __init__(self, testbed: Testbed, namespace: str, replicas: list[Replica]) -> None:
        self.testbed = testbed
        self.namespace = namespace
        self.replicas = replicas

    async def submit(self, body: Object) -> Object:
        return await self.testbed.client.create(DIJOBS, body, self.namespace)

    async def patch(self, spec: Object) -> None:
        await self.testbed.client.patch(DIJOBS, JOB, {"spec": spec}, self.namespace)

    async def delete(self) -> None:
        await self.testbed.client.delete(DIJOBS, JOB, self.namespace)

    async def fail(self, pod: str) -> None:
        await self.testbed.kubelet.finish(self.namespace, pod, exit_code=1)

    async def exhaust(self, pod: str) -> None:
        await self.testbed.kubelet.finish(self.namespace, pod, exit_code=137, reason="OOMKilled")

    async def check(self, pod: str, *, node: str, seconds: float) -> None:
        said = json.dumps({"seconds": seconds})
        await self.testbed.kubelet.run_on(node, self.namespace, pod, said=said)

    async def restart(self, pod: str) -> None:
        await self.testbed.kubelet.restart(self.namespace, pod)

    async def finish(self, pod: str) -> None:
        await self.testbed.kubelet.finish(self.namespace, pod)

    async def hold(self, pod: str) -> None:
        await self._set_finalizers(pod, [_HELD])

    async def let_go(self, pod: str) -> None:
        await self._set_finalizers(pod, [])

    async def queue(self, cpu: str) -> str:
        flavor = resource_flavor(self.namespace)
        shared = cluster_queue(self.namespace, {self.namespace: {"cpu": cpu}})
        local = local_queue(QUEUE, self.namespace, self.namespace)
        for body in (flavor, shared, local):
            await self.testbed.client.create(BY_KIND[body["kind"]], body)
        for body in (shared, local):
            await until_answered(self.testbed.client, body)
        return QUEUE

    async def stop_queue(self, policy: str | None) -> None:
        spec = {"spec": {"stopPolicy": policy or "None"}}
        await self.testbed.client.patch(CLUSTER_QUEUES, self.namespace, spec)

    async def reached(self, what: str, test: Callable[[Object], bool]) -> None:
        def answer() -> bool:
            job = self.job()
            return job is not None and test(job.get("status") or {})

        await self.until(what, answer)

    async def until(
        self, what: str, test: Callable[[], object], deadline: float = DEADLINE
    ) -> None:
        await wait_until_async(test, deadline, what=what, every=0.02)

    def pods(self) -> Mapping[str, Object]:
        return {
            pod["metadata"]["name"]: dict(pod)
            for pod in self.testbed.pods.items()
            if pod["metadata"]["namespace"] == self.namespace
        }

    def job(self) -> Object | None:
        job = self.testbed.jobs.get(self.namespace, JOB)
        return None if job is None else dict(job)

    @property
    def status(self) -> Object:
        status: Object = (self.job() or {}).get("status") or {}
        return status

    def created(self) -> dict[str, int]:
        """Distinct pods that ever were, by name."""
        return {
            name: len(uids)
            for (place, name), uids in self.testbed.created.items()
            if place == self.namespace
        }

    async def hand_over(self) -> None:
        await self.replicas[0].stop()

    async def standbys_wait(self) -> None:
        """Wait until every standby replica has read the lease: from then on it can succeed."""
        await self.until(
            "the standby replicas to read the lease",
            lambda: all(replica.knows_lease_since for replica in self.replicas),
            START_SECONDS,
        )

    async def aftermath(self, patience: float) -> Aftermath | None:
        """Wait for what an interruption leads to; None if there was none.

        Args:
            patience: seconds from the end of the interruption.
        """
        first, *others = self.replicas
        if first.interruption is None:
            return None
        while True:
            found = first.interruption.aftermath(
                mine=first.renewals,
                of_others=[at for other in others for at in other.renewals],
                standby_since=max(other.knows_lease_since or 0.0 for other in others),
            )
            if found.is_complete or time.monotonic() > first.interruption.over + patience:
                return found
            await asyncio.sleep(0.05)

    def requests(self) -> list[Done]:
        """What all replicas asked for, each in its order."""
        return [done for replica in self.replicas for done in replica.proxy.journal.requests]

    async def _set_finalizers(self, pod: str, names: list[str]) -> None:
        patch = {"metadata": {"finalizers": names}}
        await self.testbed.client.patch(PODS, pod, patch, self.namespace)

    @property
    def logs(self) -> str:
        return "\n".join(replica.component.log for replica in self.replicas)


@asynccontextmanager
async def scene(
    testbed: Testbed, *, replicas: int = 1, faults: Sequence[Fault] = (), title: str = ""
) -> AsyncIterator[Scene]:
    """Set the scene: a namespace and its operators, of which the first leads.

    Faults strike the first; the others are those who have to live with it. Leaves all stopped.
    """
    namespace = f"f-{next(_numbers)}"
    await testbed.namespace(namespace)
    folder = testbed.folder / namespace
    folder.mkdir(parents=True)
    (folder / "title").write_text(f"{title}\n")
    shown = Source(
        name=namespace,
        logs=lambda: {f"{path.parent.name}.log": path for path in folder.glob("*/operator.log")},
    )
    async with AsyncExitStack() as stack:
        stack.enter_context(SOURCES.shown(shown))
        started: list[Replica] = []
        for index in range(replicas):
            replica = Replica(
                testbed.config,
                folder,
                namespace=namespace,
                identity=f"replica-{index}",
                port=stack.enter_context(held_port()),
                faults=() if index else faults,
            )
            await stack.enter_async_context(replica.proxy)
            started.append(replica)
        first, *others = started
        first.start()
        if others:
            await wait_until_async(
                lambda: first.leads, START_SECONDS, what="the first replica to lead", every=0.05
            )
        for replica in others:
            replica.start()
        try:
            yield Scene(testbed, namespace, started)
        finally:
            await asyncio.gather(*(replica.stop() for replica in started))
