"""Writes that a decision asks for, other than the job's status.

Order matters and is the executor's only duty beyond running them: neighbours of one class may run
at the same time, a change of class is a barrier (the Service stands before the first pod).

What counts as success is part of the meaning of each action:

- a create that meets an object controlled by the same job (same owner UID) has succeeded;
- a delete that meets nothing, or an object of another UID, has succeeded;
- a delete that meets a newer resourceVersion is decided again from a newer snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Body: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateService:
    """Create the job's headless Service."""

    body: Body


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

    body: Body


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
    | DeletePod
    | DeleteService
    | DeleteConfigMap
    | DeleteJob
)
