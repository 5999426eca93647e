"""All writes an operator owes a job, found out before the job exists.

The operator's own decisions are asked once, on a model of the cluster; what they answer for one
job is text in which another job's name and UID are put later. So the bare client writes what the
operator writes, byte for byte but for the times, and follows every change of the operator.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from di_kube.resources import CONFIGMAPS, SERVICES, Resource
from di_operator.lifecycle.observed.status import with_owned
from di_operator.lifecycle.vocabulary import actions
from di_operator.lifecycle.vocabulary.decision import JobEvent
from tests.unit.lifecycle.cluster_model import ClusterModel

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """A POST; `text` is the body as JSON."""

    resource: Resource
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """A DELETE of an object made before; `name` is that of the rehearsed job's."""

    resource: Resource
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one reconcile writes: objects, then the status (as JSON), then events."""

    objects: tuple[Create | Delete, ...]
    status: str | None
    events: tuple[JobEvent, ...]

    @property
    def writes(self) -> int:
        """Requests of the step without its events."""
        return len(self.objects) + (self.status is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The steps of a job's life: when it appears, when all pods are ready, when all have ended."""

    name: str
    uid: str
    start: tuple[Step, ...]
    ready: tuple[Step, ...]
    end: tuple[Step, ...]

    @property
    def writes(self) -> int:
        """Requests for a job without events."""
        return sum(step.writes for step in (*self.start, *self.ready, *self.end))

    def fill(self, text: str, *, name: str, uid: str) -> Object:
        """The body for a job of that name and UID."""
        body: Object = orjson.loads(text.replace(self.name, name).replace(self.uid, uid))
        return body


def rehearse(job: Mapping[str, Any]) -> Script:
    """Play a job's life on the model; `job` is what the API server has (name, namespace, uid).

    Raises:
        TypeError: the operator does something in it that the bare client cannot.
    """
    metadata = job["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "uid")}
    model = ClusterModel(
        {
            "apiVersion": job["apiVersion"],
            "kind": job["kind"],
            "metadata": {**kept, "generation": 1, "resourceVersion": "1"},
            "spec": copy.deepcopy(job["spec"]),
        }
    )
    start = tuple(_settle(model))
    model.run()
    ready = tuple(_settle(model))
    model.succeed()
    end = tuple(_settle(model))
    return Script(name=kept["name"], uid=kept["uid"], start=start, ready=ready, end=end)


def _settle(model: ClusterModel) -> Iterator[Step]:
    """Reconcile until the operator wants nothing more."""
    while True:
        before = copy.deepcopy(model.status)
        decision = model.reconcile()
        status = decision.status
        is_other = status is not None and with_owned(before, status) != before
        if not decision.actions and not is_other:
            return
        yield Step(
            objects=tuple(_writes(decision.actions)),
            status=_text(model.status) if is_other else None,
            events=decision.events,
        )


def _text(value: object) -> str:
    return orjson.dumps(value).decode()


def _writes(decided: Sequence[actions.Action]) -> Iterator[Create | Delete]:
    for action in decided:
        match action:
            case actions.Create(resource=resource, body=body):
                yield Create(resource=resource, text=_text(body))
            case actions.Delete(resource=resource, name=name) if resource in (SERVICES, CONFIGMAPS):
                yield Delete(resource=resource, name=name)
            case _:
                raise TypeError(f"no part of a smooth life: {action}")
