"""The facts of a pod that follow from its spec and its status alone; equal pods share them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from di_api.names import ENV_RANK
from di_api.ownership import controlling_job
from di_api.pods.main_container import phase_of, was_rejected
from di_operator.builders.pinning import node_of
from di_operator.lifecycle.observed.blockers import Blocker, find_blocker
from di_operator.lifecycle.observed.in_place import failures_in, is_down

READY: Final = "Ready"
_NUMBER: Final = re.compile("[0-9]{1,5}")
_MOST_NUMBERS: Final = 4096
"""Texts of which the number is remembered: the ranks of the largest job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """Facts from the spec and the status of a pod; the fields are those of `Pod`."""

    phase: str
    has_begun: bool
    told_rank: int | None
    node: str
    conditions: frozenset[str]
    blocker: Blocker | None
    is_taken_up: bool
    failures: int
    is_down: bool
    reason: str

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> PodState:
        """Read a pod of which only `spec` and `status` are used."""
        status: Mapping[str, Any] = raw.get("status") or {}
        phase = phase_of(raw)
        return cls(
            phase=phase,
            has_begun=not was_rejected(raw),
            told_rank=told_rank(raw),
            node=node_of(raw.get("spec") or {}),
            conditions=true_conditions(status),
            blocker=find_blocker(raw),
            is_taken_up=status.get("startTime") is not None or phase != "Pending",
            failures=failures_in(raw),
            is_down=is_down(raw),
            reason=status.get("reason") or "",
        )


class SharedStates:
    """Reads the states of pods, and those with the identical spec and status once.

    A cache keeps one object for all equal specs, and one for all equal statuses: the pods of a task
    are mostly in two or three states.
    """

    def __init__(self, *, size: int) -> None:
        """Remember `size` states."""
        self._size = size
        self._known: dict[tuple[int, int], tuple[PodState, object, object]] = {}

    def __call__(self, raw: Mapping[str, Any]) -> PodState:
        """Return the state of a pod, whose parts must not be modified later."""
        spec, status = raw.get("spec"), raw.get("status")
        key = id(spec), id(status)
        if (known := self._known.get(key)) is not None:
            return known[0]
        state = PodState.read(raw)
        # The parts are kept as long as their numbers are used.
        self._known[key] = state, spec, status
        if len(self._known) > self._size:
            del self._known[next(iter(self._known))]
        return state


class SharedOwners:
    """Reads the controlling job of objects, and of those with the identical references once.

    A cache keeps one list of references for all pods of a job.
    """

    def __init__(self, *, size: int) -> None:
        """Remember `size` lists of references."""
        self._size = size
        self._known: dict[int, tuple[Mapping[str, Any] | None, object]] = {}

    def __call__(self, found: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what `controlling_job` does; the references must not be modified later."""
        references = found["metadata"].get("ownerReferences")
        if references is None:
            return None
        key = id(references)
        if (known := self._known.get(key)) is not None:
            return known[0]
        owner = controlling_job(found)
        # The references are kept as long as their number is used.
        self._known[key] = owner, references
        if len(self._known) > self._size:
            del self._known[next(iter(self._known))]
        return owner


def told_rank(raw: Mapping[str, Any]) -> int | None:
    """Return the rank in the environment of a pod's first container, None if it has none."""
    containers = (raw.get("spec") or {}).get("containers") or ()
    variables = containers[0].get("env") or () if containers else ()
    found = (one.get("value") for one in variables if one.get("name") == ENV_RANK)
    return as_number(next(found, None))


def true_conditions(status: Mapping[str, Any]) -> frozenset[str]:
    """Return the types of conditions that are True."""
    by_type = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    return frozenset(str(kind) for kind, condition in by_type.items() if is_true(condition))


def is_true(condition: Mapping[str, Any]) -> bool:
    """Return whether a condition is True."""
    return bool(condition.get("status") == "True")


def as_number(text: object) -> int | None:
    """Return the number that a text is; None if it is none, or has more digits than any job has
    pods.
    """
    return _number_in(text) if isinstance(text, str) else None


@lru_cache(maxsize=_MOST_NUMBERS)
def _number_in(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None
