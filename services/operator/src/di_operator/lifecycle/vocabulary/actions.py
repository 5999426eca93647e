"""Writes that a decision asks for, other than the job's status.

Order matters and is the executor's only duty beyond running them. Neighbours of one label and one
stage may run at the same time; a change of either is a barrier. So the Service stands before the
first pod, and under a quota no collector takes what a learner needs.

What counts as success is part of the meaning of each action:

- a create that meets an object controlled by the same job (same owner UID) has succeeded;
- a dry run has succeeded when the create would, or when the API server does not judge it;
- a delete that meets nothing, or an object of another UID, has succeeded;
- a delete or a patch that meets a newer resourceVersion is decided again from a newer snapshot.

What is made is held as a recipe, of a few references each: a body is built when it is sent, or the
bodies of one large job would fill the memory before the first is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from di_kube.resources import Resource


class Recipe(Protocol):
    """What a body is built from; equal recipes build equal bodies."""

    def build(self) -> dict[str, Any]:
        """The body, anew with each call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create an object."""

    resource: Resource
    recipe: Recipe
    stage: int = 0
    """Those of a later stage begin when all before them have succeeded."""

    @property
    def label(self) -> str:
        """What is done to what, in one word."""
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
    """The job that the object is for, as it was decided from."""

    @property
    def label(self) -> str:
        """What is done to what, in one word."""
        return f"DryRun{self.resource.kind}"

    @property
    def body(self) -> Mapping[str, Any]:
        """The body, built now."""
        return self.recipe.build()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCompanion:
    """Create an object that the job brings along, of any kind that the cluster allows."""

    index: int
    """Its place in the spec."""
    resource: Resource | None
    """None: the operator may make none of the kind, and the job is told."""
    kind: str
    """With its version, for messages."""
    name: str
    recipe: Recipe

    @property
    def label(self) -> str:
        """What is done, in one word; companions of all kinds may be made at the same time."""
        return "CreateCompanion"

    @property
    def body(self) -> Mapping[str, Any]:
        """The body, built now."""
        return self.recipe.build()

    @property
    def words(self) -> str:
        """Which one it is, for messages."""
        return f"spec.companions[{self.index}], {self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchedulingObject:
    """Create what a scheduler or the API of evictions reads of the job; nobody watches it."""

    resource: Resource
    name: str
    recipe: Recipe

    @property
    def label(self) -> str:
        """What is done, in one word; those of all kinds may be made at the same time."""
        return "CreateSchedulingObject"

    @property
    def body(self) -> Mapping[str, Any]:
        """The body, built now."""
        return self.recipe.build()


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchSchedulingObject:
    """Change such an object if it still is what was seen, by a merge patch."""

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
        """What is done, in one word; those of all kinds may be changed at the same time."""
        return "PatchSchedulingObject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Replace an object; the body carries the resourceVersion it was computed from."""

    resource: Resource
    recipe: Recipe

    @property
    def label(self) -> str:
        """What is done to what, in one word."""
        return f"Replace{self.resource.kind}"

    @property
    def body(self) -> Mapping[str, Any]:
        """The body, built now."""
        return self.recipe.build()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete an object if it still is what was seen.

    ``grace_period_seconds`` None leaves it its own grace period; 0 is used only for a pod whose
    node is lost, where nobody is left to confirm the end.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    resource_version: str
    grace_period_seconds: int | None = None

    @property
    def label(self) -> str:
        """What is done to what, in one word; DIJobs are jobs in here."""
        return f"Delete{self.resource.kind.removeprefix('DI')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim:
    """Write labels and annotations of an object, whatever else has changed since; None takes one
    away."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None]

    @property
    def label(self) -> str:
        """What is done, in one word; objects of all kinds may be reclaimed at the same time."""
        return "Reclaim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Write some fields of an object if it still is what was seen: a JSON merge patch.

    Of its metadata the patch may have anything but the UID and resourceVersion, which come from
    here.
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
        """What is done to what, in one word; DIJobs are jobs in here."""
        what = (self.subresource or "").capitalize()
        return f"Patch{self.resource.kind.removeprefix('DI')}{what}"

    @property
    def body(self) -> Mapping[str, Any]:
        """What is sent."""
        seen = {"uid": self.uid, "resourceVersion": self.resource_version}
        return {**self.patch, "metadata": {**self.patch.get("metadata", {}), **seen}}


def barrier(action: Action) -> tuple[str, int]:
    """What neighbours have in common that may run at the same time: the label and the stage."""
    return action.label, action.stage if isinstance(action, Create) else 0


Creation: TypeAlias = (
    Create | CreateCompanion | CreateSchedulingObject | PatchSchedulingObject | Replace
)
"""What may stand among the creations of a plan."""
Action: TypeAlias = Creation | DryRun | Delete | Reclaim | Patch
