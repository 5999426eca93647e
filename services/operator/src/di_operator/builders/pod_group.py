"""PodGroups for gang scheduling, and what makes a pod a member of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from di_api import names
from di_api.field_error import mapping
from di_api.spec import GangScheduler
from di_kube.resources import Resource
from di_operator.builders.metadata import object_metadata
from di_operator.resources import UNIT, Resources, read_resources

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupKind:
    """The PodGroup API of one scheduler."""

    resource: Resource
    scheduler: str | None
    """Default `schedulerName` of the pods; None: the cluster's default scheduler."""
    membership: tuple[str, ...]
    """Path in a pod's body that names its group."""
    minimum: tuple[str, ...] = ("minMember",)
    """Path in the group's spec with the number of pods that start together."""
    has_resources: bool = False
    """Whether the group declares the resources of its pods. The scheduler of scheduler-plugins
    (0.34) retries a group that it refused for resources only when a pod or group is created, even
    if capacity is free by then. Without the field it judges by the pods, and retries when one ends.
    """
    is_asked: bool = False
    """Whether a change of the group is needed to make the scheduler retry refused pods. The one of
    scheduler-plugins (0.34) reads groups from a different cache than the one that wakes it, and can
    refuse a pod by the group's previous state.
    """
    has_queues: bool = False
    has_priority: bool = False
    """Whether the group has a priority class."""
    fixed: frozenset[str] = frozenset()
    """Immutable fields of the group's spec."""


KINDS: Final[Mapping[GangScheduler, PodGroupKind]] = {
    GangScheduler.SCHEDULER_PLUGINS: PodGroupKind(
        resource=Resource(
            group="scheduling.x-k8s.io", version="v1alpha1", plural="podgroups", kind="PodGroup"
        ),
        scheduler="scheduler-plugins-scheduler",
        membership=("metadata", "labels", names.LABEL_POD_GROUP),
        is_asked=True,
    ),
    GangScheduler.VOLCANO: PodGroupKind(
        resource=Resource(
            group="scheduling.volcano.sh", version="v1beta1", plural="podgroups", kind="PodGroup"
        ),
        scheduler="volcano",
        membership=("metadata", "annotations", names.ANNOTATION_POD_GROUP),
        has_resources=True,
        has_queues=True,
        has_priority=True,
    ),
    GangScheduler.KUBERNETES: PodGroupKind(
        resource=Resource(
            group="scheduling.k8s.io", version="v1beta1", plural="podgroups", kind="PodGroup"
        ),
        scheduler=None,
        membership=("spec", "schedulingGroup", "podGroupName"),
        minimum=("schedulingPolicy", "gang", "minCount"),
        has_priority=True,
        fixed=frozenset({"priorityClassName"}),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The PodGroup that pods of a job are created for."""

    kind: PodGroupKind
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupRecipe:
    """The PodGroup of a job that is not built yet."""

    job: Object
    kind: PodGroupKind
    members: int
    """Number of pods that start together, at least one."""
    is_complete: bool = False
    """Whether all members exist."""
    asked_at: str | None = None
    """Time of a requested retry; None: no retry is requested."""
    resources: Resources = field(default_factory=dict)
    """Sum of the members' resource requests."""
    queue: str | None = None
    priority_class: str | None = None

    def build(self) -> dict[str, Any]:
        """Return the PodGroup's body."""
        resource = self.kind.resource
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                **object_metadata(self.job, self.job["metadata"]["name"]),
                **({"annotations": self._notes()} if self.is_complete else {}),
            },
            "spec": self._spec(),
        }

    def changes(self, found: Object) -> dict[str, Any] | None:
        """Return the merge patch that brings an existing PodGroup up to date; None if it is up to
        date.

        Fields of other clients stay. `is_complete` is written last: the scheduler of
        scheduler-plugins refuses a pod that is created before the others, and retries when its
        group changes.
        """
        present = mapping(mapping(found.get("metadata")).get("annotations"))
        told = all(present.get(key) == value for key, value in self._notes().items())
        spec = mapping(found.get("spec"))
        wanted = {key: each for key, each in self._spec().items() if key not in self.kind.fixed}
        asked = wanted.pop("minResources", {})
        same = all(spec.get(key) == value for key, value in wanted.items())
        patch: dict[str, Any] = {}
        if not (same and _amounts(spec.get("minResources")) == _amounts(asked)):
            gone = dict.fromkeys(mapping(spec.get("minResources")).keys() - asked.keys())
            resources = {"minResources": {**gone, **asked}} if gone or asked else {}
            patch["spec"] = {**wanted, **resources}
        notes = self._notes() if self.is_complete and not told else {}
        if self.asked_at is not None:
            notes[names.ANNOTATION_ASKED_AT] = self.asked_at
        if notes:
            patch["metadata"] = {"annotations": notes}
        return patch or None

    def _notes(self) -> dict[str, str]:
        return {names.ANNOTATION_PODS_MADE: str(self.members)}

    def _spec(self) -> dict[str, Any]:
        spec = _with({}, self.kind.minimum, self.members)
        if self.kind.has_resources:
            asked = ((name, amount) for name, amount in sorted(self.resources.items()) if amount)
            spec["minResources"] = {name: _quantity(amount) for name, amount in asked}
        if self.kind.has_queues and self.queue is not None:
            spec["queue"] = self.queue
        if self.kind.has_priority and self.priority_class is not None:
            spec["priorityClassName"] = self.priority_class
        return spec


def scheduled_by(pod: dict[str, Any], gang: Gang, *, is_member: bool) -> dict[str, Any]:
    """Return a pod's body for the scheduler of a gang, as a member of its group or outside of it.

    A `schedulerName` of the template stays: there the same scheduler runs under that name.
    """
    named = {} if gang.kind.scheduler is None else {"schedulerName": gang.kind.scheduler}
    pod = {**pod, "spec": named | pod["spec"]}
    return _with(pod, gang.kind.membership, gang.group) if is_member else pod


def _with(body: Object, path: Sequence[str], value: object) -> dict[str, Any]:
    """Return a body with another value at a path."""
    first, *rest = path
    inner = _with(mapping(body.get(first)), rest, value) if rest else value
    return {**body, first: inner}


def _quantity(amount: int) -> str:
    """Return an amount as a Kubernetes quantity."""
    return str(amount // UNIT) if amount % UNIT == 0 else f"{amount}m"


def _amounts(quantities: object) -> Resources | None:
    """Read the amounts of an existing group. None, which equals no wanted value, if another client
    wrote something unreadable.
    """
    try:
        return read_resources(mapping(quantities))
    except ValueError:
        return None
