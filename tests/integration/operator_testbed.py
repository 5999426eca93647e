"""What a test of the operator stands on: a namespace with a fake kubelet and operators in it."""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from di_api.names import AGGREGATOR_CONFIG, ANNOTATION_RANK, API_VERSION, KIND, LABEL_JOB
from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import DIJOBS, EVENTS, PODS, SERVICES, Resource
from di_operator.builders.pinning import Binding
from di_operator.config import Config
from di_operator.leadership.election import Timing
from di_operator.leadership.release_claim import ClaimTiming
from di_operator.main import operate
from di_operator.process.clock import Clock, SystemClock
from di_service.settings import Address
from tests.fakes.kubelet import FakeKubelet
from tests.following import following
from tests.integration.conftest import patient
from tests.waiting import DEADLINE, START_SECONDS, wait_until_async

Object = dict[str, Any]
PATIENT = Timing(lease_duration=DEADLINE, renew_deadline=DEADLINE / 2)
PATIENT_CLAIM = ClaimTiming(duration=DEADLINE)
"""Operators share the loop of their test, and a busy machine may stop it for a while."""
PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io",
    version="v1",
    plural="priorityclasses",
    kind="PriorityClass",
    namespaced=False,
)


def task(
    name: str = "work", replicas: int = 1, *, depends_on: tuple[str, ...] = (), **notes: str
) -> Object:
    """A task of type none; `notes` are annotations for the fake kubelet, `_` for `-`."""
    annotations = {f"fake/{key.replace('_', '-')}": value for key, value in notes.items()}
    body: Object = {
        "name": name,
        "type": "none",
        "replicas": replicas,
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "di-container", "image": "none"}]},
        },
    }
    if depends_on:
        body["dependsOn"] = list(depends_on)
    return body


def job(name: str, *tasks: Object, **spec: Any) -> Object:
    """A DIJob."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {**spec, "tasks": list(tasks)},
    }


def coordinated_job(
    name: str, *replicas: Object, notes: Mapping[str, str] = {}, **spec: Any
) -> Object:
    """A DIJob with a coordinator; `notes` are annotations of its collectors and learners."""
    containers = [{"name": "di-container", "image": "none"}]
    other = {"metadata": {"annotations": dict(notes)}, "spec": {"containers": containers}}
    coordinated = {
        "coordinator": {"template": {"spec": {"containers": containers}}},
        "collector": {"template": other},
        "learner": {"template": other},
        "replicas": list(replicas),
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {**spec, "coordinated": coordinated},
    }


def replica(name: str, role: str = "collector", **fields: Any) -> Object:
    """An entry of `spec.coordinated.replicas`."""
    return {"name": name, "role": role, **fields}


def config(namespace: str, identity: str = "one", /, **changes: Any) -> Config:
    """The configuration of an operator that looks after one namespace only."""
    values: dict[str, Any] = {
        "namespace": namespace,
        "watch_namespace": namespace,
        "service_domain": "svc.cluster.local",
        "server_url": "http://di-server.test:8081",
        "coordinated_server_url": "http://di-server.test:8080",
        "aggregator_config": (namespace, AGGREGATOR_CONFIG),
        "aggregator_template": {},
        "health_bind": Address(host="127.0.0.1", port=0),
        "lease_name": "di-operator",
        "identity": identity,
        "leader_elect": True,
        "sync_period": 3600.0,  # longer than a test waits: no poll repairs an event that is missed
        "workers": 32,
        "authority_secret": None,
        "webhook_secret": None,
        "server_secret": None,
        "history_secret": None,
        "dashboard_secret": None,
        "traces": None,
        "trace_ratio": 1.0,
        "job_secrets": None,
        "server_ca_secret": None,
        "server_deployment": None,
        "webhook_service": "di-webhook",
        "webhook_configuration": None,
        "webhook_admission": None,
        "token_audience": None,
        "policy": None,
        "policy_arguments": {},
        "node_kind_label": None,
        "scheduling_period": 60.0,
        "binding": Binding.SCHEDULER,
        "companion_kinds": (),
        "kueue": True,
        "high_priority_class": None,
        "notification_targets": (),
        "notification_waiting": 0.0,
        "job_metrics": 200,
        "job_tasks": False,
        "sweeps": False,
        "suspend_idle_jobs": False,
        "scale_down_idle_jobs": False,
        "suspect_taint_percent": 0,
        "kubeconfig": None,
        "log_level": "info",
    }
    return Config(**{**values, **changes})


@dataclass(slots=True, kw_only=True)
class Operator:
    """One replica in this process."""

    task: asyncio.Task[None]
    stop: asyncio.Event
    port: int

    def has_failed(self) -> bool:
        """Whether it ended by itself."""
        ended = self.task.done() and not self.task.cancelled() and not self.stop.is_set()
        return ended and self.task.exception() is not None

    async def end(self) -> None:
        """Stop it as SIGTERM does."""
        self.stop.set()
        await asyncio.wait_for(self.task, DEADLINE)


class OperatorEnded(Exception):
    """A replica ended that was not asked to."""


@dataclass(slots=True, kw_only=True)
class Testbed:
    """The namespace of a test, what happened in it, and short words for looking at it."""

    __test__: ClassVar[bool] = False  # no class of tests, whatever its name begins with

    kube_config: KubeConfig
    namespace: str
    client: KubeClient
    kubelet: FakeKubelet
    phases: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    created: Counter[str] = field(default_factory=Counter)
    operators: list[Operator] = field(default_factory=list)

    @asynccontextmanager
    async def operator(
        self,
        identity: str = "one",
        *,
        client_config: KubeConfig | None = None,
        clock: Clock | None = None,
        timing: Timing = PATIENT,
        claim_timing: ClaimTiming = PATIENT_CLAIM,
        **changes: Any,
    ) -> AsyncIterator[Operator]:
        """Run a replica; leaves it stopped."""
        stop, serving = asyncio.Event(), asyncio.get_running_loop().create_future()
        running = asyncio.create_task(
            operate(
                config=config(self.namespace, identity, **changes),
                kube=client_config or self.kube_config,
                clock=clock or SystemClock(),
                rng=random.Random(),
                stop=stop,
                timing=timing,
                claim_timing=claim_timing,
                on_serving=serving.set_result,
            )
        )
        await asyncio.wait(
            [running, serving], timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if running.done():
            running.result()
        assert serving.done(), f"the operator did not serve within {START_SECONDS:g} s"
        replica = Operator(task=running, stop=stop, port=serving.result())
        self.operators.append(replica)
        try:
            yield replica
        finally:
            self.operators.remove(replica)
            stop.set()
            await asyncio.wait_for(asyncio.gather(running, return_exceptions=True), DEADLINE)
        if not running.cancelled() and running.exception() is not None:
            await running

    async def submit(self, body: Object) -> Object:
        return await self.client.create(DIJOBS, body, self.namespace)

    async def job(self, name: str) -> Object:
        return await self.client.get(DIJOBS, name, self.namespace)

    async def status(self, name: str) -> Object:
        status: Object = (await self.job(name)).get("status") or {}
        return status

    async def patch(self, name: str, spec: Mapping[str, Any]) -> Object:
        return await self.client.patch(DIJOBS, name, {"spec": dict(spec)}, self.namespace)

    async def delete(self, name: str) -> None:
        await self.client.delete(DIJOBS, name, self.namespace)

    async def pods(self, name: str) -> dict[str, Object]:
        """The pods labelled with the job's name, by their own."""
        items, _ = await self.client.list(
            PODS, self.namespace, label_selector=f"{LABEL_JOB}={name}"
        )
        return {pod["metadata"]["name"]: pod for pod in items}

    async def ranks(self, name: str) -> dict[str, int]:
        """Rank of each pod that is not being deleted."""
        return {
            pod: int(body["metadata"]["annotations"][ANNOTATION_RANK])
            for pod, body in (await self.pods(name)).items()
            if "deletionTimestamp" not in body["metadata"]
        }

    async def service_exists(self, name: str) -> bool:
        try:
            await self.client.get(SERVICES, f"di-{name}", self.namespace)
        except NotFound:
            return False
        return True

    async def events(self, name: str) -> list[Object]:
        items, _ = await self.client.list(
            EVENTS, self.namespace, field_selector=f"involvedObject.name={name}"
        )
        return items

    async def has_events(self, name: str, reason: str) -> list[Object]:
        """Wait until the job has events of the reason; returns them."""

        async def found() -> list[Object]:
            return [event for event in await self.events(name) if event["reason"] == reason]

        return await wait_until_async(found, what=f"{name} to have an event {reason}")

    async def phase(self, name: str, *wanted: str) -> Object:
        """Wait until the job is in one of the phases; returns its status."""

        async def is_there() -> bool:
            return (await self.status(name)).get("phase") in wanted

        what = f"{name} to be {' or '.join(wanted)}"
        await self.until(is_there, what)
        status = await self.status(name)
        await self.seen(name, *wanted)
        return status

    async def seen(self, name: str, *wanted: str) -> None:
        """Wait until the history has one of the phases: its watch may be behind what was read."""
        what = f"the watch to tell that {name} was {' or '.join(wanted)}"
        await wait_until_async(lambda: not set(wanted).isdisjoint(self.phases[name]), what=what)

    async def until(
        self, predicate: Callable[[], Awaitable[bool]], what: str, deadline: float = DEADLINE
    ) -> None:
        """Wait for it; the error of an operator that ended is raised at once."""

        async def checked() -> bool:
            for operator in self.operators:
                if operator.has_failed():
                    raise OperatorEnded from operator.task.exception()
            return await predicate()

        await wait_until_async(checked, deadline, what=what)


def condition(status: Object, kind: str) -> Object:
    """The condition of that type."""
    conditions: dict[str, Object] = {one["type"]: one for one in status["conditions"]}
    return conditions[kind]


def on_testbed(
    kube_config: KubeConfig, namespace: str, body: Callable[[Testbed], Awaitable[None]]
) -> None:
    """Run `body` on a testbed of its own: kubelet and watchers up, no operator yet."""

    async def main() -> None:
        async with open_testbed(kube_config, namespace) as testbed:
            await body(testbed)

    asyncio.run(main())


def with_testbed(story: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of what happens on a testbed, the story's first argument; others are fixtures."""
    (_, *others) = inspect.signature(story).parameters.values()

    def test(kube_config: KubeConfig, namespace: str, **given: object) -> None:
        own = {"kube_config": kube_config, "namespace": namespace, **given}
        wanted = {each.name: own[each.name] for each in others}
        on_testbed(kube_config, namespace, lambda testbed: story(testbed, **wanted))

    functools.update_wrapper(test, story)
    # pytest reads the fixtures from here, and not from what is wrapped.
    fixtures = dict.fromkeys(["kube_config", "namespace", *(each.name for each in others)])
    kind = inspect.Parameter.KEYWORD_ONLY
    test.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # of any function
        [inspect.Parameter(name, kind) for name in fixtures]
    )
    return test


@asynccontextmanager
async def open_testbed(kube_config: KubeConfig, namespace: str) -> AsyncIterator[Testbed]:
    """A testbed in a namespace that is there: kubelet and watchers up, no operator yet."""
    async with (
        patient(kube_config) as client,
        FakeKubelet(client, namespace=namespace) as kubelet,
    ):
        testbed = Testbed(
            kube_config=kube_config, namespace=namespace, client=client, kubelet=kubelet
        )
        jobs = WatchCache(
            client,
            DIJOBS,
            namespace=namespace,
            clock=asyncio.get_running_loop().time,
            rng=random.Random(),
        )
        jobs.subscribe(_recorder(testbed))
        kubelet.cache.subscribe(_counter(testbed))
        async with following(jobs):
            yield testbed


def _recorder(testbed: Testbed) -> Callable[[str, Object], None]:
    def record(_: str, body: Object) -> None:
        phase = (body.get("status") or {}).get("phase")
        seen = testbed.phases[body["metadata"]["name"]]
        if phase is not None and (not seen or seen[-1] != phase):
            seen.append(phase)

    return record


def _counter(testbed: Testbed) -> Callable[[str, Object], None]:
    known: set[str] = set()

    def count(kind: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if kind != "DELETED" and uid not in known:
            known.add(uid)
            testbed.created[pod["metadata"]["name"]] += 1

    return count
