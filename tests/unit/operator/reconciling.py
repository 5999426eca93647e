"""A reconciler of one job before an API server in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from datetime import datetime
from random import Random
from typing import Any

from typing_extensions import override

from di_api.companions import CompanionKind
from di_api.names import API_VERSION, KIND
from di_kube.errors import ApiError
from di_kube.resources import CONFIGMAPS, DIJOBS, PODS, Resource
from di_operator.builders.configmap import transform_configmap
from di_operator.cluster.companions import Companions
from di_operator.cluster.executor import Executor
from di_operator.cluster.informer_state import transform_job
from di_operator.cluster.scheduling_objects import SchedulingObjects
from di_operator.cluster.settled_jobs import SettledJobs
from di_operator.cluster.status_writer import StatusWriter
from di_operator.cluster.unlabelled_pods import UnlabelledPods
from di_operator.kueue.queueing import NOT_WATCHED, Kueue
from di_operator.lifecycle.observed.pods import Pod, PodReader
from di_operator.lifecycle.observed.specs import SpecCache
from di_operator.lifecycle.vocabulary.decision import JobEvent, Settings
from di_operator.metrics.metrics import Metrics
from di_operator.process.concurrency import Tenants, Writers
from di_operator.process.controller import JobKey
from di_operator.reconcile.job_reader import JobReader, KnownElsewhere, Unwatched
from di_operator.reconcile.pod_trials import Trials
from di_operator.reconcile.reconciler import Reconciler
from tests.unit.operator import virtual_time
from tests.unit.operator.fake_api import FakeApi, Object
from tests.unit.operator.virtual_time import VirtualClock

KEY = JobKey("ns", "a")


class Settled(SettledJobs):
    """Keeps the times at which settled jobs are due."""

    def __init__(self) -> None:
        super().__init__()
        self.due: list[datetime | None] = []

    @override
    def record(self, job: Mapping[str, Any], due: datetime | None) -> None:
        self.due.append(due)


class Known:
    """A world that knows only what it was told: nothing but own writes and reads."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Any] = {}
        self.gone: set[str] = set()
        self.settled = Settled()

    def observe(self, resource: Resource, body: Object, *, is_news: bool = False) -> None:
        kept: Mapping[str, Any] = body
        if resource == CONFIGMAPS:
            kept = transform_configmap(body)
        elif resource == DIJOBS:
            kept = transform_job(deepcopy(body))
        self.objects[resource.kind, body["metadata"]["name"]] = kept

    def recognise(self, resource: Resource, body: Object) -> Object:
        return body

    def observe_all(
        self, resource: Resource, bodies: Iterable[Mapping[str, Any]], version: str
    ) -> bool:
        for body in bodies:
            self.observe(resource, dict(body))
        return True

    def forget(self, uid: str) -> None:
        self.gone.add(uid)

    def job(self, key: JobKey) -> Object | None:
        job = self.objects.get(("DIJob", key.name))
        return None if job is None or job["metadata"]["uid"] in self.gone else job

    def pods(self, key: JobKey) -> list[Object]:
        return self._of("Pod")

    def services(self, key: JobKey) -> list[Object]:
        return self._of("Service")

    def configmaps(self, key: JobKey) -> list[Object]:
        return self._of("ConfigMap")

    def _of(self, wanted: str) -> list[Object]:
        return [
            body
            for (kind, _), body in self.objects.items()
            if kind == wanted and body["metadata"]["uid"] not in self.gone
        ]


class Bench:
    def __init__(self) -> None:
        self.api = FakeApi()
        self.known = Known()
        self.events: list[JobEvent] = []
        self.read_pod: PodReader = Pod.read
        self.seconds = 0.0
        self.specs = SpecCache(size=64)
        self.companion_kinds: tuple[CompanionKind, ...] = ()
        self.trials = Trials(monotonic=lambda: self.seconds)
        self.asked: list[JobKey] = []
        self.deleted: dict[str, list[Object]] = {}
        self.unlabelled = UnlabelledPods(monotonic=lambda: self.seconds)
        looks: Any = {
            "client": self.api,
            "reread_seconds": 30.0,
            "monotonic": lambda: self.seconds,
        }
        self.companions = Companions(**looks)
        self.scheduling_objects = SchedulingObjects(**looks)

    def submit(self, replicas: int = 2, **changes: Any) -> Object:
        container = {"name": "di-container", "image": "none"}
        task = {
            "name": "work",
            "type": "none",
            "replicas": replicas,
            "template": {"spec": {"containers": [container]}},
        }
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": "a", "generation": 1},
            "spec": {"tasks": [task], **changes},
        }
        return self.submit_body(body)

    def submit_body(self, body: Object) -> Object:
        """Create the job, and know it as the watch would show it."""
        stored = self.api.put(DIJOBS, "ns", body)
        self.known.observe(DIJOBS, stored)
        return stored

    def reconcile(self) -> float | None:
        return virtual_time.run(self.reconciler().reconcile(KEY))

    def settle(self) -> None:
        """Reconcile until nothing is left to do."""
        for _ in range(6):
            if self.reconcile() != 0.0:
                return
        raise AssertionError("there is always more to do")

    def report(self, error: Exception) -> None:
        virtual_time.run(self.reconciler().report(KEY, error))

    def reconciler(self) -> Reconciler:
        clock = VirtualClock()
        parts: dict[str, Any] = {
            "client": self.api,
            "writes": self.known,
            "writers": Writers(monotonic=lambda: 0.0),
            "tenants": Tenants(monotonic=lambda: 0.0),
            "check_lease": lambda: None,
            "observer": Metrics(),
        }
        return Reconciler(
            reader=self.reader(),
            executor=Executor(
                **parts,
                companions=self.companions,
                scheduling_objects=self.scheduling_objects,
            ),
            status=StatusWriter(**parts),
            emit=lambda job, event: self.events.append(event),
            clock=clock,
            rng=Random(1),
        )

    def reader(self) -> JobReader:
        return JobReader(
            client=self.api,  # type: ignore[arg-type]  # the part of the client it uses
            informers=self.known,
            known=KnownElsewhere(
                kueue=lambda key: Kueue(obstacle=NOT_WATCHED),
                deleted_pods=lambda uid: self.deleted.get(uid, []),
                forget_deleted=self.forget_deleted,
                unlabelled_pods=self.unlabelled,
                trial=self.trials.known,
                try_pods=self.asked.append,
            ),
            unwatched=Unwatched(
                companions=self.companions,
                scheduling_objects=self.scheduling_objects,
                aggregator_config=("di-system", "aggregator-config"),
            ),
            specs=self.specs,
            read_pod=self.read_pod,
            settings=Settings(
                service_domain="svc.cluster.local",
                server_url="http://s:8081",
                coordinated_server_url="http://s:8080",
                companion_kinds=self.companion_kinds,
            ),
        )

    def forget_deleted(self, uid: str, pods: Iterable[str]) -> None:
        gone = {*pods}
        kept = [pod for pod in self.deleted.get(uid, ()) if pod["metadata"]["uid"] not in gone]
        self.deleted[uid] = kept

    def refuse(
        self, error: type[ApiError], message: str = "", *, verb: str = "", kind: str = ""
    ) -> None:
        """Answer such requests with an error; no verb and no kind: any."""

        def answer(asked: str, found: str, name: str) -> ApiError | None:
            is_meant = verb in ("", asked) and kind in ("", found)
            return error(kind=found, name=name, message=message) if is_meant else None

        self.api.before = answer

    @property
    def status(self) -> Object:
        status: Object = self.api.objects["DIJob", "ns", "a"].get("status") or {}
        return status

    @property
    def condition(self) -> Object:
        """That of the job's phase."""
        found = self.status
        return next(each for each in found["conditions"] if each["type"] == found["phase"])

    def run_pods(self) -> None:
        """Bring a job of two pods to Running."""
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        for index in range(2):
            pod = self.api.objects["Pod", "ns", f"a-work-{index}"]
            self.known.observe(PODS, self.api.put(PODS, "ns", {**pod, "status": ready}))
        self.settle()
        assert self.status["phase"] == "Running"
