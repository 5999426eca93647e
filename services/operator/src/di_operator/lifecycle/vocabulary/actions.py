"""The writes that a decision requests, other than the job's status.

The executor runs them in order. Neighbours with the same label and stage may run at the same time;
a change of either is a barrier. So a Service exists before the first pod does, and under a quota
the learners get their pods before the collectors.

Each action defines what counts as success:

- a create that meets an object controlled by the same job (same owner UID) has succeeded;
- a dry run has succeeded when the create would, or when the API server does not judge it;
- a delete that finds no object, or an object of another UID, has succeeded;
- a delete or a patch that meets a newer resourceVersion is decided again from a newer snapshot.

An object to create is held as a recipe of a few references. Its body is built when it is sent: the
bodies of one large job, all built at once, would fill the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from di_kube.resources import Resource


class Recipe(Protocol):
    """The input that a body is built from; equal recipes build equal bodies."""

    def build(self) -> dict[str, Any]:
        """Build the body; each call returns a new one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create an object."""

    resource: Resource
    recipe: Recipe
    stage: int = 0
    """Creates of a later stage begin when all creates of earlier stages have succeeded."""

    @property
    def label(self) -> str:
        """Name of the action with the type of its object, such as `CreatePod`."""
        return f"Create{self.resource.kind}"

    @property
    def body(self) -> Mapping[str, Any]:
        """The body, built now."""
        return self.recipe.build()


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """Ask the API server whether it would create an object; nothing is stored."""

    resource: Resource
    recipe: Recipe
    job: Mapping[str, Any]
    """The job that the object is for, as it was when the decision was made."""

    @property
    def label(self) -> str:
        """Name of the action with the type of its object, such as `DryRunPod`."""
        return f"DryRun{self.resource.kind}"

    @property
    def body(self) -> Mapping[str, Any]:
        """The body, built now."""
        return self.recipe.build()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCompanion:
    """Create a companion of the job: an object of any type that the cluster allows."""

    index: int
    """Its place in the list of companions in the spec."""
    resource: Resource | None
    """The REST resource; None if the operator is not allowed to create this type of object."""
    kind: str
    """Object kind with its API version, for messages."""
    name: str
    recipe: Recipe

    @property
    def label(self) -> str:
        """Name of the action: companions of all types share it and may be created together."""
        return "CreateCompanion"

    @property
    def body(self) -> Mapping[str, Any]:
        """The body, built now."""
        return self.recipe.build()

    @property
    def words(self) -> str:
        """The kind and name of the companion, for messages."""
        return f"spec.companions[{self.index}], {self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchedulingObject:
    """Create an object for a scheduler or for the eviction API; the operator does not watch it."""

    resource: Resource
    name: str
    recipe: Recipe

    @property
    def label(self) -> str:
        """Name of the action: all scheduling objects share it and may be created together."""
        return "CreateSchedulingObject"

    @property
    def body(self) -> Mapping[str, Any]:
        """The body, built now."""
        return self.recipe.build()


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchSchedulingObject:
    """Patch such an object (merge patch) if it has not changed since it was read."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    resource_version: str
    owner: str
    """The job's UID."""
    patch: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Name of the action: all scheduling objects share it and may be patched together."""
        return "PatchSchedulingObject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Replace an object; the body carries the resourceVersion that it was computed from."""

    resource: Resource
    recipe: Recipe

    @property
    def label(self) -> str:
        """Name of the action with the type of its object."""
        return f"Replace{self.resource.kind}"

    @property
    def body(self) -> Mapping[str, Any]:
        """The body, built now."""
        return self.recipe.build()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete an object if it has not changed since it was read.

    ``grace_period_seconds`` None keeps the object's own grace period. 0 is used only for a pod on
    a lost node, where no kubelet can confirm the end of the pod.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    resource_version: str
    grace_period_seconds: int | None = None

    @property
    def label(self) -> str:
        """Name of the action with the type of its object; a DIJob is called a job here."""
        return f"Delete{self.resource.kind.removeprefix('DI')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim:
    """Restore labels and annotations of an object at any resourceVersion; None removes one."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None]

    @property
    def label(self) -> str:
        """Name of the action: objects of all types share it and may be reclaimed together."""
        return "Reclaim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Patch some fields of an object (JSON merge patch) if it has not changed since it was read.

    The patch may set any metadata but the UID and the resourceVersion, which this action adds.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    resource_version: str
    patch: Mapping[str, Any]
    subresource: str | None = None

    @property
    def label(self) -> str:
        """Name of the action with the type of its object; a DIJob is called a job here."""
        what = (self.subresource or "").capitalize()
        return f"Patch{self.resource.kind.removeprefix('DI')}{what}"

    @property
    def body(self) -> Mapping[str, Any]:
        """The body of the request."""
        seen = {"uid": self.uid, "resourceVersion": self.resource_version}
        return {**self.patch, "metadata": {**self.patch.get("metadata", {}), **seen}}


def barrier(action: Action) -> tuple[str, int]:
    """Return the key that neighbouring actions share if they may run at the same time."""
    return action.label, action.stage if isinstance(action, Create) else 0


Creation: TypeAlias = (
    Create | CreateCompanion | CreateSchedulingObject | PatchSchedulingObject | Replace
)
"""The actions that may be among the creations of a plan."""
Action: TypeAlias = Creation | DryRun | Delete | Reclaim | Patch
