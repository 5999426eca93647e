"""PodGroups of schedulers that bind pods together, and what makes a pod a member of one."""

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
    """The PodGroup that one scheduler reads."""

    resource: Resource
    scheduler: str | None
    """What pods name in `schedulerName` where their template does not; None: the cluster's own."""
    membership: tuple[str, ...]
    """Where in its body a pod names its group."""
    minimum: tuple[str, ...] = ("minMember",)
    """Where in its spec the group says how many pods start together."""
    has_resources: bool = False
    """Whether the group says what its pods ask for. The scheduler of scheduler-plugins (0.34) lets
    a group that was refused for that wait until a pod or a group is made, whatever room there is
    by then: without it, it finds out by the pods, and looks again when one ends."""
    is_asked: bool = False
    """Whether the scheduler has to be asked to look again at pods that it refused, by a change of
    their group. That of scheduler-plugins (0.34) reads groups from another cache than the one that
    wakes it, and may refuse a pod by what the group was before the change."""
    has_queues: bool = False
    has_priority: bool = False
    """Whether the group has a priority class."""
    fixed: frozenset[str] = frozenset()
    """Fields of the spec that nobody may change."""


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
    """The group that pods of a job are made for."""

    kind: PodGroupKind
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupRecipe:
    """The PodGroup of a job, still to be built."""

    job: Object
    kind: PodGroupKind
    members: int
    """Pods that start together, at least one."""
    is_complete: bool = False
    """Whether all of them are there."""
    asked_at: str | None = None
    """The time, if the scheduler is to be asked to look again."""
    resources: Resources = field(default_factory=dict)
    """What they ask for together."""
    queue: str | None = None
    priority_class: str | None = None

    def build(self) -> dict[str, Any]:
        """The PodGroup's body."""
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
        """The merge patch that makes a PodGroup as it is to be; None if it is.

        What others write into it beside stays. That all pods are there is written last: the
        scheduler of scheduler-plugins refuses a pod that is made before the others, and looks at it
        again when its group changes.
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
    """Return a pod's body for the scheduler of a gang, as a member of its group or beside it.

    A scheduler that the template names stays: there the same scheduler runs under that name.
    """
    named = {} if gang.kind.scheduler is None else {"schedulerName": gang.kind.scheduler}
    pod = {**pod, "spec": named | pod["spec"]}
    return _with(pod, gang.kind.membership, gang.group) if is_member else pod


def _with(body: Object, path: Sequence[str], value: object) -> dict[str, Any]:
    """A body with another value at a path."""
    first, *rest = path
    inner = _with(mapping(body.get(first)), rest, value) if rest else value
    return {**body, first: inner}


def _quantity(amount: int) -> str:
    """An amount as Kubernetes writes it."""
    return str(amount // UNIT) if amount % UNIT == 0 else f"{amount}m"


def _amounts(quantities: object) -> Resources | None:
    """Somebody else may have written anything into it: None is like nothing that is wanted."""
    try:
        return read_resources(mapping(quantities))
    except ValueError:
        return None
