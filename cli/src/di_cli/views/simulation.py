"""Result of a simulation, as text and as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from di_cli.views.ends import End
from di_cli.views.quotas import Ruling

Placed = Mapping[str, Mapping[str, int]]
"""Number of pods by task, then by node."""

_NODES_SHOWN: Final = 6
_SHIFTS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A job that gets other nodes because of the new one; pods by task."""

    key: str
    change: str
    before: Mapping[str, int]
    after: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result for the job with one priority.

    Attributes:
        now: its nodes at once; empty: it waits.
        later: its nodes after the allocator's next round.
        shifts: the effect on other jobs.
        obstacle: why it does not run at once.
        impossible: why it would not run even in an empty cluster.
    """

    now: Placed
    later: Placed
    shifts: Sequence[Shift] = ()
    obstacle: str = ""
    impossible: str = ""

    @property
    def starts(self) -> bool:
        """Return whether it runs after the next round."""
        return bool(self.now or self.later)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The result of a simulation.

    Attributes:
        key: `<namespace>/<name>`.
        policy: that decides; empty: the cluster's scheduler does.
        known: whether that was read from the cluster.
        outcome: with the job's own priority.
        raised: with high priority, if that changes the result.
        when: the end of another job after which it starts.
        ends: number of jobs with known ends that were simulated as ended.
        ruling: what the namespace's quotas refuse.
        preempting: its nodes if the cluster's scheduler preempts pods of lower priority.
        victims: number of those pods on these nodes.
        unread: data that was not readable.
        unknown: what is unknown, as text.
    """

    key: str
    policy: str
    known: bool
    outcome: Outcome
    raised: Outcome | None = None
    when: End | None = None
    ends: int = 0
    ruling: Ruling = field(default_factory=Ruling)
    preempting: Outcome | None = None
    victims: int = 0
    unread: Sequence[str] = ()
    unknown: Sequence[str] = ()

    @property
    def namespace(self) -> str:
        """Return the job's namespace."""
        return self.key.partition("/")[0]


def lines(found: Simulation) -> Iterator[str]:
    """Yield the result in sentences, the answer first."""
    for each in found.ruling.shortages:
        yield (
            f"does not start: quota {each.quota} of namespace {found.namespace} has {each.left} of "
            f"{each.hard} {each.resource} left, the job needs {each.needed}"
        )
    answer = _answer(found)
    if found.ruling.shortages:
        yield f"by the nodes alone it {next(answer)}"
    yield from answer
    for what in found.unread:
        yield f"  not seen   {what}; room that they take counts as free"
    for what in found.unknown:
        yield f"  not known  {what}"
    if found.policy:
        whose = (
            "the cluster's" if found.known else "taken for the cluster's, --policy names another"
        )
        yield f"  decided    by the policy {found.policy}, {whose}"
    else:
        yield "  decided    by the cluster's scheduler, which may choose other nodes"


def as_json(found: Simulation) -> dict[str, Any]:
    """Return the data for programs; times in seconds."""
    when = found.when
    return {
        "job": found.key,
        "policy": found.policy or None,
        "policyKnown": found.known,
        **_outcome_json(found.outcome),
        "withHighPriority": _outcome_json(found.raised) if found.raised else None,
        "wouldFit": {
            "seconds": round(when.seconds),
            "job": when.key,
            "byDeadline": when.by_deadline,
            "between": [round(each) for each in when.between] if when.between else None,
        }
        if when
        else None,
        "quota": [
            {
                "name": each.quota,
                "resource": each.resource,
                "needed": each.needed,
                "left": each.left,
                "hard": each.hard,
            }
            for each in found.ruling.shortages
        ],
        "preempting": {"now": found.preempting.now, "podsOfLowerPriority": found.victims}
        if found.preempting
        else None,
        "unread": list(found.unread),
        "unknown": list(found.unknown),
    }


def _answer(found: Simulation) -> Iterator[str]:
    outcome, namespace = found.outcome, found.namespace
    if outcome.now:
        yield f"fits now: {_places(outcome.now)}"
        if outcome.later and outcome.later != outcome.now:
            yield f"  then       {_places(outcome.later)}, when the allocator reconsiders all jobs"
        yield from _costs(outcome, namespace)
        return
    if outcome.impossible:
        yield f"does not fit, whatever else runs: {outcome.impossible}"
        return
    yield f"does not fit now: {outcome.obstacle}"
    if outcome.later:
        yield f"would fit when the allocator reconsiders all jobs: {_places(outcome.later)}"
        yield from _costs(outcome, namespace)
        return
    if found.preempting:
        yield f"would fit at the expense of pods of lower priority: {_places(found.preempting.now)}"
        pods = "1 pod" if found.victims == 1 else f"{found.victims} pods"
        yield f"  preempts   some of {pods} there, as the cluster's scheduler chooses"
        return
    if found.when:
        what = "'s deadline is over" if found.when.by_deadline else " ends"
        who = _name(found.when.key, namespace)
        yield f"would fit {found.when.range()}: when {who}{what}"
    elif found.ends:
        jobs = "job" if found.ends == 1 else f"{found.ends} jobs"
        yield f"would not fit either when the next {jobs} of those that say when have ended"
    else:
        yield "nobody can say when: no job that runs reports its progress, or has a deadline"
    if found.raised:
        yield f"would fit with --priority high: {_places(found.raised.later or found.raised.now)}"
        yield from _costs(found.raised, namespace)


def _costs(outcome: Outcome, namespace: str) -> Iterator[str]:
    for shift in outcome.shifts[:_SHIFTS_SHOWN]:
        yield f"  {_cost(shift, namespace)}"
    if (hidden := len(outcome.shifts) - _SHIFTS_SHOWN) > 0:
        yield f"  and {hidden} more jobs"
    if not outcome.shifts:
        yield "  changes    no other job"


def _cost(shift: Shift, namespace: str) -> str:
    name = _name(shift.key, namespace)
    if shift.change in ("stop", "start"):
        return f"{shift.change}s".ljust(11) + name
    sizes = [
        f"{task} {before} -> {shift.after.get(task, 0)}"
        for task, before in shift.before.items()
        if before != shift.after.get(task, 0)
    ]
    gone = sum(shift.before.values()) - sum(shift.after.values())
    word = "shrinks" if gone > 0 else "grows" if gone < 0 else "moves"
    restart = " (from its last checkpoint)" if shift.change == "restart" else ""
    return word.ljust(11) + f"{name}{': ' if sizes else ''}{', '.join(sizes)}{restart}"


def _places(placed: Placed) -> str:
    return "; ".join(
        f"{task} {sum(nodes.values())} on {_nodes(nodes)}"
        for task, nodes in placed.items()
        if nodes
    )


def _nodes(nodes: Mapping[str, int]) -> str:
    if len(nodes) == 1:
        return next(iter(nodes))
    named = [f"{name} ({count})" for name, count in sorted(nodes.items())]
    shown = named[:_NODES_SHOWN]
    more = len(named) - len(shown)
    return ", ".join(shown) + (f" and {more} more nodes" if more else "")


def _name(key: str, namespace: str) -> str:
    return key.removeprefix(f"{namespace}/")


def _outcome_json(found: Outcome) -> dict[str, Any]:
    return {
        "fits": bool(found.now),
        "starts": found.starts,
        "now": found.now,
        "later": found.later,
        "others": [
            {
                "job": each.key,
                "change": each.change,
                "before": each.before,
                "after": each.after,
            }
            for each in found.shifts
        ],
        "obstacle": found.obstacle,
        "impossible": found.impossible,
    }
