"""Plans by rule: for every moment of a clean run, everything that can go wrong at it.

The first three rules are those of Sieve (OSDI 2022), which found them enough to make most bugs of
controllers show: *intermediate* (a crash right after each write), *stale* (a restart into a past
that was seen already), *unobserved* (an event never delivered because a later one cancels it).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tools.faults.plan import (
    Cut,
    Drop,
    Empty,
    Expire,
    Fault,
    Freeze,
    Hold,
    Kill,
    Lose,
    Notice,
    Plan,
    Refuse,
    Repeat,
    Request,
    RequestAction,
    Rewind,
    Slow,
    Stop,
    StreamAction,
    Truncate,
)
from tools.faults.trace import Trace
from tools.faults.workloads import ASKED_FOR, COMPANION, REPLICAS

ERRORS = (401, 403, 404, 409, 410, 422, 429, 500, 503, 504)
RETRY_AFTER = 1
HELD = 1.0
"""Seconds; long enough for whatever the operator does next to happen first."""
FROZEN = 20.0
"""Seconds; longer than a lease, and than a standby replica needs to take it over."""

# How many changes the shown past is behind; the last one shows the world before the job.
_BACK = (1, 3, 1000)
# What refusing a create as forbidden leads to: the job waits, says so, and tries again.
_FORBIDDEN = frozenset({"CreateForbidden", "JobPending", "PodsCreated"})
# And refusing what a coordinator has asked for as invalid: it is told and tried again.
_REFUSED = frozenset({"InvalidTemplate"})
# Of what the job brings along 404 says that nobody serves its kind.
_UNSERVED = frozenset({"CompanionKindMissing", "JobPending", "PodsCreated"})
# The ConfigMap of the node lists is invalid if they are too long: the job waits and tries again.
_TOO_LONG = frozenset({"NodeListsTooLong", "JobPending", "PodsCreated"})


def generate(traces: Mapping[str, Trace]) -> tuple[Plan, ...]:
    """Return all plans for the traces, in a fixed order."""
    return tuple(plan for name, trace in traces.items() for plan in _for(name, trace))


def sample(plans: tuple[Plan, ...], size: int) -> tuple[Plan, ...]:
    """Choose about ``size`` plans: of each rule in each workload, evenly."""
    groups: dict[tuple[str, str], list[Plan]] = {}
    for plan in plans:
        groups.setdefault((plan.workload, plan.rule), []).append(plan)
    each = max(1, round(size / len(groups)))
    return tuple(
        group[(2 * number + 1) * len(group) // (2 * count)]
        for group in groups.values()
        for count in [min(each, len(group))]
        for number in range(count)
    )


def part_of_day(plans: tuple[Plan, ...], size: int, day: int) -> tuple[Plan, ...]:
    """Choose at most ``size`` plans of all workloads; ``len(plans) / size`` days have every plan.

    Args:
        plans: all of them.
        size: at least 1.
        day: a number that grows by one a day, such as `date.toordinal()`.
    """
    parts = max(1, math.ceil(len(plans) / size))
    return plans[day % parts :: parts]


def _for(workload: str, trace: Trace) -> Iterator[Plan]:
    for write in trace.writes:
        if write.what != "leases":
            for answered in (False, True):
                yield _plan(workload, "intermediate", write, Kill(answered=answered))
    yield from _stale(workload, trace)
    for notice in trace.notices:
        cancelled = any(later.name == notice.name for later in _after(trace, notice))
        yield _watch(workload, "unobserved" if cancelled else "lost", notice, Drop())
    begun = False
    for request in trace.requests:
        begun = begun or (request.verb, request.what) == ("update", "dijobs/status")
        for code in ERRORS:
            yield _refusal(workload, request, code, joins=begun and request.name in ASKED_FOR)
    for write in trace.writes:
        for action in (Lose(True), Lose(False), Truncate(), Slow(HELD)):
            yield _plan(workload, "broken", write, action)
    for index, notice in enumerate(trace.notices):
        yield _watch(workload, "late", notice, Hold(HELD, whole=True))
        yield _watch(workload, "late", notice, Hold(HELD, whole=False))
        yield _watch(workload, "repeated", notice, Repeat())
        # Each of these costs the stream; in turn, because where it breaks matters more than how.
        ends: tuple[StreamAction, ...] = (Cut(), Expire(), Cut(torn=True), Empty())
        yield _watch(workload, "cut", notice, ends[index % len(ends)])
    yield from _interrupted(workload, trace)


def _interrupted(workload: str, trace: Trace) -> Iterator[Plan]:
    """Stop and freeze the leader at each of its requests, where no user stops it as well."""
    if workload in REPLICAS:
        return
    for request in trace.requests:
        if request.verb == "watch" or request.what == "leases":
            continue
        for answered in (False, True):
            yield _plan(workload, "stopped", request, Stop(answered=answered))
            yield _plan(workload, "frozen", request, Freeze(answered=answered, seconds=FROZEN))


def _stale(workload: str, trace: Trace) -> Iterator[Plan]:
    """Restart after each status write and each delete into a past of pods, jobs, or both."""
    for write in trace.writes:
        if write.what != "dijobs/status" and write.verb != "delete":
            continue
        for what in (("pods",), ("dijobs",), ("dijobs", "pods", "services")):
            for back in _BACK:
                rewind = Rewind(what=what, back=back, seconds=HELD)
                yield _plan(workload, "stale", write, Kill(answered=True, rewind=rewind))


def _refusal(workload: str, request: Request, code: int, *, joins: bool) -> Plan:
    """Refuse a request; ``joins``: it is for a collector of a job whose coordinator is there."""
    fault = Fault(at=request, do=Refuse(code, RETRY_AFTER if code in (429, 503) else None))
    creates = request.verb == "create" and request.what in ("pods", "services", "configmaps")
    brought = creates and request.name == COMPANION
    lists = request.what == "configmaps" and request.verb in ("create", "update") and not brought
    invalid = creates and code == 422 and not lists
    tolerates: frozenset[str] = frozenset()
    if creates and code == 403:
        tolerates = _FORBIDDEN
    elif brought and code == 404:
        tolerates = _UNSERVED
    elif invalid and joins:
        tolerates = _REFUSED
    elif lists and code == 422:
        tolerates = _TOO_LONG
    return Plan(
        workload=workload,
        rule="refused",
        faults=(fault,),
        ends=("InvalidCompanion" if brought else "InvalidTemplate")
        if invalid and not joins
        else None,
        tolerates=tolerates,
    )


def _plan(workload: str, rule: str, at: Request, do: RequestAction) -> Plan:
    return Plan(workload=workload, rule=rule, faults=(Fault(at=at, do=do),))


def _watch(workload: str, rule: str, at: Notice, do: StreamAction) -> Plan:
    return Plan(workload=workload, rule=rule, faults=(Fault(at=at, do=do),))


def _after(trace: Trace, notice: Notice) -> Iterator[Notice]:
    position = trace.notices.index(notice)
    return (one for one in trace.notices[position + 1 :] if one.what == notice.what)
