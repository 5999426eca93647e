"""Writes that a decision asks for, other than the job's status.

Order matters and is the executor's only duty beyond running them: neighbours of one class may run
at the same time, a change of class is a barrier (the Service stands before the first pod).

What counts as success is part of the meaning of each action:

- a create that meets an object controlled by the same job (same owner UID) has succeeded;
- a delete that meets nothing, or an object of another UID, has succeeded;
- a delete that meets a newer resourceVersion is decided again from a newer snapshot.

Objects of which a job has thousands are held as recipes, of a few references each: a body is built
when it is sent, or the bodies of one large job would fill the memory before the first is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Body: TypeAlias = Mapping[str, Any]


class Recipe(Protocol):
    """What a body is built from; equal recipes build equal bodies."""

    def build(self) -> dict[str, Any]:
        """The body, anew with each call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateService:
    """Create the headless Service of a job, or of one pod of a coordinated job."""

    recipe: Recipe

    @property
    def body(self) -> Body:
        """The body, built now."""
        return self.recipe.build()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateConfigMap:
    """Create the ConfigMap that holds the node lists of a large job."""

    body: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceConfigMap:
    """Replace that ConfigMap; the body carries the resourceVersion it was computed from."""

    body: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePod:
    """Create one replica."""

    recipe: Recipe

    @property
    def body(self) -> Body:
        """The body, built now."""
        return self.recipe.build()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim:
    """Put labels and annotations of an object back, whatever else has changed since.

    ``kind`` is ``Pod``, ``Service`` or ``ConfigMap``.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Delete one pod if it still is what was seen.

    ``grace_period_seconds`` None leaves the pod its own grace period; 0 is used only for a pod
    whose node is lost, where nobody is left to confirm the end.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    grace_period_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteService:
    """Delete the job's Service, or the one that an earlier job of the same name left."""

    namespace: str
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteConfigMap:
    """Delete the job's ConfigMap, or the one that an earlier job of the same name left."""

    namespace: str
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Delete the finished job itself (``ttlSecondsAfterFinished``); its objects follow by owner."""

    namespace: str
    name: str
    uid: str
    resource_version: str


Action: TypeAlias = (
    CreateService
    | CreateConfigMap
    | ReplaceConfigMap
    | CreatePod
    | Reclaim
    | DeletePod
    | DeleteService
    | DeleteConfigMap
    | DeleteJob
)
