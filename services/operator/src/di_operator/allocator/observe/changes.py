"""Changes of the cluster since the last round, and which of them start a round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias

from di_api.field_error import mapping
from di_api.pods.main_container import was_rejected
from di_operator.allocator.rounds.budgets import ChangeBudgets
from di_operator.allocator.withdrawals.dry_runs import DryRuns
from di_operator.allocator.withdrawals.resource_quotas import Bound, read_bounds
from di_operator.allocator.withdrawals.withdrawals import RefusedWrite
from di_operator.builders.pinning import node_of
from di_operator.lifecycle.observed.pods import is_finished, refusal_of

Object = Mapping[str, Any]

_NO_MARKS: Final = (False, False)
_NO_DRY_RUNS: Final[Mapping[str, object]] = MappingProxyType({})

Found: TypeAlias = dict[str, tuple[bool, Object]]
"""Objects by UID as last seen, and whether they still exist."""


@dataclass(slots=True, kw_only=True)
class Changes:
    """Objects that were added, changed or removed; `others` are pods without the labels of a job,
    `quotas` ResourceQuotas.
    """

    jobs: Found = field(default_factory=dict)
    nodes: Found = field(default_factory=dict)
    pods: Found = field(default_factory=dict)
    others: Found = field(default_factory=dict)
    quotas: Found = field(default_factory=dict)
    refused: list[RefusedWrite] = field(default_factory=list)
    """Writes for jobs that the API server refused."""
    dry_runs: dict[str, object] = field(default_factory=dict)
    """By UID of the job: the generation of its spec whose pods the API server would create."""

    @classmethod
    def all(
        cls,
        *,
        jobs: Iterable[Object],
        departed: Iterable[Object],
        nodes: Iterable[Object],
        pods: Iterable[Object],
        others: Iterable[Object],
        quotas: Iterable[Object] = (),
        dry_runs: Mapping[str, object] = _NO_DRY_RUNS,
    ) -> Self:
        """Return all objects, and deleted jobs, for a reader without any state."""
        return cls(
            jobs=_found(departed, is_there=False) | _found(jobs),
            nodes=_found(nodes),
            pods=_found(pods),
            others=_found(others),
            quotas=_found(quotas),
            dry_runs=dict(dry_runs),
        )


class News:
    """Collector of changes for the next round, which also decides which of them start one.

    Attributes:
        everything: a change since the last round can be of use to any job.
        asking: UIDs of the jobs that may need nodes. Without any, pods of the cluster are
            ignored here.
        budgets: the recent changes of namespaces.
        dry_runs: jobs whose pods the API server would create.
        kept_out: UIDs of the jobs that wait because their pods are refused.
        answered: keys of the jobs whose dry runs were refused since the last round, by UID.
        departed: deleted jobs, by UID, which the caller forgets with the last of their pods.
            None on a standby, which does not forget any.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        """Take `monotonic`, which returns seconds."""
        self._monotonic = monotonic
        self.budgets = ChangeBudgets()
        self.dry_runs = DryRuns()
        self.kept_out: Set[str] = frozenset()
        self.answered: dict[str, str] = {}
        self.everything = True
        self.asking: set[str] = set()
        self.departed: dict[str, Object] | None = None
        self._changes: Changes | None = None
        self._seen: dict[str, object] = {}
        # By UID of the job: generation, whether it has ended, and what its queue has admitted.
        self._specs: dict[str, tuple[object, bool, object]] = {}
        # By UID of the pod: whether a node or the scheduler has refused it, and whether it has
        # ended.
        self._marks: dict[str, tuple[bool, bool]] = {}
        # By the UID of a ResourceQuota.
        self._left: dict[str, tuple[Bound, ...]] = {}

    def begin(self, changes: Changes) -> None:
        """Keep changes from now on, in addition to these."""
        self._changes = changes

    def end(self) -> None:
        """Stop keeping changes."""
        self._changes = None

    def drain(self) -> Changes:
        """Return the changes since the last call, or since `begin`."""
        found, self._changes = self._changes or Changes(), Changes()
        return found

    def on_job(self, kind: str, job: Object) -> bool:
        """Record a change of a DIJob; returns whether it starts a round."""
        is_there, uid = kind != "DELETED", job["metadata"]["uid"]
        if self._changes is not None:
            self._changes.jobs[uid] = is_there, job
        if self.departed is not None and not is_there:
            self.departed[uid] = job
        if is_there and asks_for_nodes(job):
            self.asking.add(uid)
        else:
            self.asking.discard(uid)
            self.dry_runs.forget(uid)
        status = mapping(job.get("status"))
        finished, admitted = status.get("completionTimestamp") is not None, status.get("admitted")
        # Reports and phases do not change which nodes a job can have.
        now = (job["metadata"].get("generation"), finished, admitted) if is_there else None
        before = self._specs.pop(uid, None)
        if now is not None:
            self._specs[uid] = now
        if now == before:
            return False
        if before is None:
            # An arriving job can have what is free: no other job is moved for it.
            return True
        is_users = now is None or now[0] != before[0]
        if now is None and before[1]:
            return False
        if is_users and not self.budgets.spend(job["metadata"]["namespace"], self._monotonic()):
            return False
        # Edits of a job whose pods are refused must not evict others again and again.
        self.everything |= now is None or uid not in self.kept_out
        return True

    def on_node(self, kind: str, node: Object) -> bool:
        """Record a change of a node; returns whether it starts a round."""
        is_there, uid = kind != "DELETED", node["metadata"]["uid"]
        if self._changes is not None:
            self._changes.nodes[uid] = is_there, node
        status, spec = node.get("status") or {}, node.get("spec") or {}
        conditions = status.get("conditions") or ()
        ready = [c.get("status") for c in conditions if c.get("type") == "Ready"]
        labels = node["metadata"].get("labels")
        now = [status.get("allocatable"), spec.get("taints"), spec.get("unschedulable"), ready]
        return self._note(uid, [*now, labels] if is_there else None)

    def on_pod(self, kind: str, pod: Object) -> bool:
        """Record a change of a pod with a job's labels; returns whether it starts a round."""
        if self._changes is not None:
            self._changes.pods[pod["metadata"]["uid"]] = kind != "DELETED", pod
        uid, is_there = pod["metadata"]["uid"], kind != "DELETED"
        # A deleted pod frees capacity; a refusal by a kubelet shows that there is less than
        # assumed. Pods without a fixed node wait for the scheduler's result.
        is_refused = was_rejected(pod) or (
            is_there and bool(node_of(pod.get("spec") or {}) and refusal_of(pod))
        )
        # Once for each pod: a user who edits it again and again must not keep the allocator busy.
        before, now = self._marks.pop(uid, _NO_MARKS), (is_refused, is_finished(pod))
        if is_there and now != _NO_MARKS:
            self._marks[uid] = now
        self.everything |= is_refused and not before[0]
        return bool(self.asking) and (not is_there or now not in (before, _NO_MARKS))

    def on_other(self, kind: str, pod: Object) -> bool:
        """Record a change of any other pod. Returns False: there are too many, they wait for the
        period.
        """
        if self._changes is not None:
            self._changes.others[pod["metadata"]["uid"]] = kind != "DELETED", pod
        return False

    def on_quota(self, kind: str, quota: Object) -> bool:
        """Record a change of a ResourceQuota; returns whether it starts a round."""
        is_there, uid = kind != "DELETED", quota["metadata"]["uid"]
        if self._changes is not None:
            self._changes.quotas[uid] = is_there, quota
        before, self._left[uid] = self._left.get(uid), tuple(read_bounds(quota))
        if not is_there:
            del self._left[uid]
        # A higher usage of the quota is mostly that of pods that were just granted.
        is_freed = not is_there or (before is not None and _is_more(self._left[uid], before))
        self.everything |= is_freed and bool(self.asking)
        return is_freed and bool(self.asking)

    def on_refused(self, write: RefusedWrite) -> bool:
        """Record a refused write for a job; returns whether it starts a round."""
        if self._changes is None or write.uid not in self.asking:
            return False
        self._changes.refused.append(write)
        if write.is_dry_run:
            self.answered[write.uid] = write.key
        return True

    def on_dry_run(self, uid: str, generation: object) -> bool:
        """Record a successful dry run of a job's pods; returns whether it starts a round."""
        if uid not in self.asking:
            return False
        self.dry_runs.put(uid, generation)
        if self._changes is not None:
            self._changes.dry_runs[uid] = generation
        return True

    def _note(self, uid: str, now: object) -> bool:
        if now is None:
            if self._seen.pop(uid, None) is None:
                return False
        elif self._seen.get(uid) == now:
            return False
        else:
            self._seen[uid] = now
        self.everything = True
        return True


def asks_for_nodes(job: Object) -> bool:
    """Return whether the allocator may have to decide on a job; reads only a few fields."""
    spec, status = mapping(job.get("spec")), mapping(job.get("status"))
    wants = spec.get("preemptible") or mapping(spec.get("scheduling")).get("gang")
    return bool(wants) and not status.get("completionTimestamp")


def _is_more(now: tuple[Bound, ...], before: tuple[Bound, ...]) -> bool:
    """Return whether a quota leaves more of any resource than before."""
    left = {each.resource: each.hard - each.used for each in before}
    return {each.resource for each in now} != left.keys() or any(
        each.hard - each.used > left[each.resource] for each in now
    )


def _found(bodies: Iterable[Object], *, is_there: bool = True) -> Found:
    return {body["metadata"]["uid"]: (is_there, body) for body in bodies}
