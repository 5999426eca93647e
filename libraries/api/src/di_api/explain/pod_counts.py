"""How many of a job's pods exist, are ready, and end, for an explanation of a job under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from di_api.explain.facts import Object, is_healthy, name_of, node_of, text_of
from di_api.explain.job import Job
from di_api.field_error import items, mapping
from di_api.pods.main_container import all_statuses


@dataclass(frozen=True, slots=True)
class PodCounts:
    """The pods of a job.

    Attributes:
        wanted: number of pods that the job is to have.
        well: ready, or succeeded.
        ending: being deleted.
        others: neither ready nor being deleted.
    """

    wanted: int
    well: Sequence[Object]
    ending: Sequence[Object]
    others: Sequence[Object]

    @property
    def are_all_well(self) -> bool:
        """Return whether every pod that the job is to have exists and is ready."""
        return not self.ending and not self.others and len(self.well) >= self.wanted

    @property
    def missing(self) -> int:
        """Return the number of pods that do not exist."""
        return max(0, self.wanted - len(self.well) - len(self.ending) - len(self.others))

    def text(self) -> str:
        """Return what is not yet as it is to be, in one line."""
        parts = [f"{len(self.well)} of {pods(self.wanted)} {_are(self.wanted)} ready"]
        if self.ending:
            graces = {_grace(pod) for pod in self.ending} - {""}
            of = f" of {'/'.join(sorted(graces))} s" if graces else ""
            have = "has its" if len(self.ending) == 1 else "have their"
            named = _names(self.ending)
            parts.append(f"{pods(len(self.ending))} {have} grace period{of} to end ({named})")
        if self.others:
            first = self.others[0]
            more = f" (and {len(self.others) - 1} more)" if len(self.others) > 1 else ""
            parts.append(f"{name_of(first)}{more} is not ready{_doing(first)}")
        if self.missing:
            parts.append(f"{pods(self.missing)} {_are(self.missing)} not created yet")
        return "; ".join(parts)


def count_pods(job: Job) -> PodCounts:
    """Return the pods of a job, by their state."""
    found = job.facts.pods
    ending = [pod for pod in found if mapping(pod.get("metadata")).get("deletionTimestamp")]
    alive = [pod for pod in found if pod not in ending]
    well = [pod for pod in alive if is_healthy(pod)]
    others = [pod for pod in alive if not is_healthy(pod)]
    return PodCounts(max(job.count("replicas"), len(alive)), well, ending, others)


def pods(count: int) -> str:
    """Return a number of pods as text."""
    return f"{count} pod" if count == 1 else f"{count} pods"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _names(found: Sequence[Object]) -> str:
    named = ", ".join(name_of(pod) for pod in found[:3])
    return f"{named}, ..." if len(found) > 3 else named


def _grace(pod: Object) -> str:
    seconds = mapping(pod.get("metadata")).get("deletionGracePeriodSeconds")
    return str(seconds) if isinstance(seconds, int) else ""


def _doing(pod: Object) -> str:
    """Return what a pod that is not ready does, as far as its status shows it."""
    if not node_of(pod):
        return ": it has no node yet"
    for each in all_statuses(pod):
        state = mapping(each.get("state"))
        reason = text_of(mapping(state.get("waiting")).get("reason"))
        if reason:
            return f": {reason} on {node_of(pod)}"
    gates = items(mapping(pod.get("spec")).get("readinessGates"))
    return f" on {node_of(pod)}{', with readiness gates' if gates else ''}"
