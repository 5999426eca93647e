"""Judges a run by clean runs of the same workload: what is not the same has to have a reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tools.faults.footprint import Footprint, differing
from tools.faults.interruption import Aftermath
from tools.faults.plan import Freeze, Plan
from tools.faults.run import Run
from tools.faults.workloads import HOLDING, RACING

# A condition that is not True any more is history: after a crash "created 2 pods" reads "2 pods
# there", and a job that had to wait on its way has been Pending.
_HISTORY = re.compile(r"^dijobs/[^.]+\.status\.conditions\[(?P<type>\w+)\]")
_TRUE = "True"
# Waiting for an object that is still in the way is what a late view of the world may look like.
_WAITING = frozenset({"JobPending", "PodsCreated", "PodsDeleted"})
_RETOLD = 3
_UNANSWERED = re.compile(r'no answer within [^"]*", "event": "lease not renewed"')
_OF_NODES = frozenset({"Unschedulable"})
"""Warnings about nodes, which no plan touches: the fake ones beat too late on a busy machine."""
_OF_HELD_PODS = frozenset({"PodNotEnding"})
"""Warnings that are right in a workload that holds a pod for long enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Clean runs of one workload.

    ``mask`` are the paths in which their end states differ. ``counts`` are the fewest and the
    most writes and pods of each object, by ``creates``, ``deletes`` and ``pods``.
    """

    clean: Footprint
    mask: frozenset[str]
    counts: Mapping[str, Mapping[str, tuple[int, int]]]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Baseline:
        """Learn from clean runs.

        Raises:
            AssertionError: they are not clean.
        """
        for run in runs:
            assert run.trouble is None, f"{run.plan}: {run.trouble}"
            assert not run.footprint.complaints, f"{run.plan}: {run.footprint.complaints}"
        footprints = [run.footprint for run in runs]
        most: Counter[tuple[str, str]] = Counter()
        for footprint in footprints:
            most |= Counter(footprint.events)
        return cls(
            clean=replace(footprints[0], events=most),
            mask=differing(footprint.state for footprint in footprints),
            counts={
                "creates": _bounds(footprints, "creates"),
                "pods": _bounds(footprints, "pods"),
                "deletes": _deletes(footprints, racing=runs[0].plan.workload in RACING),
            },
        )


def _deletes(footprints: Sequence[Footprint], *, racing: bool) -> dict[str, tuple[int, int]]:
    """Bound deletes; where the garbage collector deletes as well, by what there was to delete."""
    if not racing:
        return _bounds(footprints, "deletes")
    return {name: (0, most) for name, (_, most) in _bounds(footprints, "creates").items()}


def _bounds(footprints: Sequence[Footprint], what: str) -> dict[str, tuple[int, int]]:
    counts: list[Mapping[str, int]] = [getattr(footprint, what) for footprint in footprints]
    names = sorted(set().union(*counts))
    each = {name: [count.get(name, 0) for count in counts] for name in names}
    return {name: (min(found), max(found)) for name, found in each.items()}


def judge(run: Run, baseline: Baseline) -> tuple[str, ...]:
    """Name everything about a run that a fault must not change; empty if there is nothing."""
    return tuple(_trouble(run)) + tuple(differences(run.footprint, baseline, run.plan))


def differences(found: Footprint, baseline: Baseline, plan: Plan) -> Iterator[str]:
    """Name what is not as it should be in a footprint."""
    clean = baseline.clean
    if plan.ends is not None:
        yield from _failed(found, baseline)
        return
    yield from _state(found.state, clean.state, baseline.mask)
    for what, bounds in baseline.counts.items():
        mine: Mapping[str, int] = getattr(found, what)
        for name in sorted({*mine, *bounds}):
            least, most = bounds.get(name, (0, 0))
            if not least <= mine.get(name, 0) <= most:
                yield f"{what} of {name}: {mine.get(name, 0)}, clean {least} to {most}"
    yield from _events(found, clean, plan)


def _trouble(run: Run) -> Iterator[str]:
    if run.trouble is not None:
        yield f"stuck: {run.trouble}"
    yield from (f"log: {line}" for line in run.footprint.complaints)
    if run.aftermath is not None:
        yield from interrupted(run.aftermath, run.logs)


def interrupted(found: Aftermath, logs: str) -> Iterator[str]:
    """Name what is wrong with the end of a replica.

    One that lost its lease ends with 1, one that was stopped with 0. On a busy machine one that is
    stopped may have lost its lease before, because its API server did not answer in time.
    """
    is_stopped = not isinstance(found.action, Freeze)
    lost = is_stopped and found.exit_code == 1 and _UNANSWERED.search(logs) is not None
    right = 0 if is_stopped and not lost else 1
    if found.leads and found.succeeded is not None:
        yield "the frozen replica went on beside another leader"
    if found.leads:
        return
    if found.exit_code is None:
        yield f"after {found.action} the process runs on"
    elif found.exit_code != right:
        yield f"after {found.action} the process ended with {found.exit_code}, not {right}"
    if not found.stood_by:
        return
    if found.succeeded is None:
        yield f"after {found.action} no other replica leads"


def _failed(found: Footprint, baseline: Baseline) -> Iterator[str]:
    phases = [value for path, value in found.state.items() if path.endswith(".status.phase")]
    jobs = [value for path, value in found.state.items() if path == "dijobs/a.status.phase"]
    if jobs != ["Failed"]:
        yield f"the job is {jobs}, not Failed"
    if "Running" in phases:
        yield "pods run on after the job failed"
    if any(path.startswith("services/") for path in found.state):
        yield "the Service is left"
    # Not more than in clean runs: those of a job that was suspended are made twice there, too.
    for name, count in sorted(found.pods.items()):
        _, most = baseline.counts["pods"].get(name, (0, 0))
        if count > most:
            yield f"pods of {name}: {count}, clean {most} at most"


def _state(
    found: Mapping[str, str], clean: Mapping[str, str], mask: frozenset[str]
) -> Iterator[str]:
    found, clean = _present(found), _present(clean)
    for path in sorted({*found, *clean}):
        if path not in mask and found.get(path) != clean.get(path):
            yield f"{path}: {found.get(path)!r}, clean {clean.get(path)!r}"


def _present(state: Mapping[str, str]) -> dict[str, str]:
    """Leave out the conditions that are history."""
    present: dict[str, str] = {}
    for path, value in state.items():
        match = _HISTORY.match(path)
        if match is None or state.get(f"{match[0]}.status") == _TRUE:
            present[path] = value
    return present


def _events(found: Footprint, clean: Footprint, plan: Plan) -> Iterator[str]:
    mine, theirs = Counter(found.events), Counter(clean.events)
    ignored = _OF_NODES | (_OF_HELD_PODS if plan.workload in HOLDING else frozenset())
    for kind, reason in sorted(mine):
        if reason in ignored:
            continue
        count, usual = mine[kind, reason], theirs[kind, reason]
        # A failure reported twice would be a failure counted twice. What is merely told may be
        # told once more, by an operator that comes back or has to wait on its way.
        allowed = usual + (reason in plan.tolerates if kind == "Warning" else _RETOLD)
        if count > allowed or not (usual or reason in {*_WAITING, *plan.tolerates}):
            yield f"event {reason}: {count}, clean {usual}"
