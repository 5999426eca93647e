"""An executor of the actions of one job before an API server in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from di_api.names import API_VERSION, KIND, LABEL_JOB, LABEL_OPERATOR, OPERATOR_NAME
from di_kube.errors import (
    ApiError,
)
from di_kube.resources import PODS, Resource
from di_operator.cluster.companions import Companions
from di_operator.cluster.executor import Executor
from di_operator.cluster.scheduling_objects import SchedulingObjects
from di_operator.lifecycle.vocabulary.actions import Action, Create, Delete, DryRun
from di_operator.lifecycle.write_errors import (
    Fault,
)
from di_operator.process.concurrency import Tenants, Writers
from di_operator.process.controller import JobKey
from di_operator.process.lease_state import NotLeading
from tests.unit.operator import virtual_time
from tests.unit.operator.fake_api import FakeApi, Object

JOB = JobKey("ns", "a")


LABELS = {LABEL_JOB: "a", LABEL_OPERATOR: OPERATOR_NAME}


class Writes:
    def __init__(self) -> None:
        self.observed: list[tuple[str, str]] = []
        self.forgotten: list[str] = []
        self.news: list[str] = []

    def observe(self, resource: Resource, body: Object, *, is_news: bool = False) -> None:
        self.observed.append((resource.kind, body["metadata"]["name"]))
        if is_news:
            self.news.append(body["metadata"]["name"])

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)


class Results(Counter[tuple[str, str]]):
    def acted(self, action: str, result: str) -> None:
        self[action, result] += 1


class Bench:
    def __init__(self) -> None:
        self.api = FakeApi()
        self.writes = Writes()
        self.writers = Writers(monotonic=lambda: 0.0)
        self.results = Results()
        self.lease_checks = 0
        self.leading = True
        self.is_wanted: Callable[[], bool] = lambda: True
        self.refused: list[tuple[JobKey, str, bool]] = []
        self.dry_runs = 0
        self.passed: list[Mapping[str, Any]] = []

    def check_lease(self) -> None:
        self.lease_checks += 1
        if not self.leading:
            raise NotLeading("lost")

    def on_refused(
        self, job: JobKey, message: str, *, is_of_server: bool, is_dry_run: bool
    ) -> None:
        self.refused.append((job, message, is_of_server))
        self.dry_runs += is_dry_run

    def run(self, *actions: Action) -> list[Fault]:
        executor = Executor(
            client=self.api,  # type: ignore[arg-type]  # the part of the client it uses
            writes=self.writes,
            companions=Companions(
                client=self.api,  # type: ignore[arg-type]  # likewise
                reread_seconds=30.0,
                monotonic=lambda: 0.0,
            ),
            scheduling_objects=SchedulingObjects(
                client=self.api,  # type: ignore[arg-type]  # likewise
                reread_seconds=30.0,
                monotonic=lambda: 0.0,
            ),
            writers=self.writers,
            tenants=Tenants(monotonic=lambda: 0.0),
            check_lease=self.check_lease,
            observer=self.results,
            on_refused=self.on_refused,
            on_dry_run_passed=self.passed.append,
        )
        return virtual_time.run(executor.run(actions, job=JOB, is_wanted=self.is_wanted))


ASKED: Object = {"metadata": {"uid": "job-1", "generation": 1}}


def pod(name: str = "a-work-0", owner: str = "job-1", **metadata: Any) -> Object:
    kind = {"apiVersion": API_VERSION, "kind": KIND}
    reference = {**kind, "name": "a", "uid": owner, "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "labels": LABELS,
            "ownerReferences": [reference],
            **metadata,
        }
    }


@dataclass(frozen=True)
class Ready:
    """A recipe that has its body already."""

    body: Object

    def build(self) -> Object:
        return self.body


def create(body: Object) -> Create:
    return Create(resource=PODS, recipe=Ready(body))


def dry_run(body: Object) -> DryRun:
    return DryRun(resource=PODS, recipe=Ready(body), job=ASKED)


def delete(body: Object, **changes: Any) -> Delete:
    metadata = body["metadata"]
    values: Object = {
        "resource": PODS,
        "namespace": "ns",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resource_version": metadata["resourceVersion"],
    }
    return Delete(**{**values, **changes})


def refuse(error: type[ApiError], message: str = "") -> Callable[[str, str, str], ApiError | None]:
    def answer(verb: str, kind: str, name: str) -> ApiError | None:
        return error(kind=kind, name=name, message=message) if verb == "create" else None

    return answer
