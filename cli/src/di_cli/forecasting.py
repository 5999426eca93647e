"""Forecasts by the operator's allocator, applied to the objects that the user can read.

The allocator is in the operator's package, which only commands with forecasts import.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from di_api.conversion.versions import ConversionFailed
from di_api.field_error import InvalidSpec, mapping
from di_api.names import OPERATOR_NAME, SYSTEM_NAMESPACE
from di_cli.constraints import below, on_nodes, ruling_of
from di_cli.errors import CommandError, from_clone
from di_cli.present import Present
from di_cli.session import Session
from di_cli.views.ends import End, ends_of
from di_cli.views.queues import Queue
from di_cli.views.simulation import Outcome, Placed, Shift, Simulation
from di_kube.errors import Forbidden, NotFound
from di_kube.resources import CONFIGMAPS

if TYPE_CHECKING:
    from di_operator.allocator.forecast.hypothetical_job import Trial
    from di_operator.allocator.forecast.what_if import Forecast, Surroundings
    from di_operator.allocator.model.job import NodeList

Object = dict[str, Any]
_ASSUMED: Final = "goodput"
"""The chart's default policy."""
_UNIT: Final = 1000
"""The allocator computes in thousandths."""
_MOST_ENDS: Final = 64
"""Maximum number of future ends that are simulated; each calls the policy for all jobs."""
_MOST_WORK: Final = 20_000
"""Maximum number of jobs in all these calls; about a second or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocator:
    """The operator's settings for the allocator.

    Attributes:
        policy: its name; empty: there is no allocator.
        arguments: of the policy.
        kind_label: the label whose value is the node type; None: all nodes are equal.
        high_class: PriorityClass of the pods of jobs with high priority; empty: none.
        known: whether they were read from the cluster.
    """

    policy: str = _ASSUMED
    arguments: Mapping[str, Any]
    kind_label: str | None = None
    high_class: str = ""
    known: bool = False


def is_installed() -> bool:
    """Return whether the operator's package is installed."""
    return find_spec("di_operator") is not None


def check_installed(command: str) -> None:
    """Raise CommandError without the operator's package."""
    if not is_installed():
        raise CommandError(
            f"{command} needs the package di-operator, which is not installed",
            remedy=f"{from_clone('local')}, of the version that the cluster runs",
        )


def read_allocator(session: Session, system: str | None, policy: str | None) -> Allocator:
    """Return the settings in the operator's ConfigMap, if the user can read it. `policy` overrides
    it: a name, or a name and its arguments as JSON, `fit:{"backfill": false}`.
    """
    try:
        found = session.client.get(CONFIGMAPS, OPERATOR_NAME, system or SYSTEM_NAMESPACE)
        settings = mapping(found.get("data"))
    except (Forbidden, NotFound):
        settings = None
    label = str(settings.get("DI_OPERATOR_NODE_KIND_LABEL") or "") if settings else ""
    high = str(settings.get("DI_OPERATOR_HIGH_PRIORITY_CLASS") or "") if settings else ""
    if policy is not None:
        name, _, text = policy.partition(":")
        return Allocator(
            policy=name,
            arguments=_arguments(text),
            kind_label=label or None,
            high_class=high,
            known=True,
        )
    if settings is None:
        return Allocator(arguments={})
    return Allocator(
        policy=str(settings.get("DI_OPERATOR_POLICY") or ""),
        arguments=_arguments(str(settings.get("DI_OPERATOR_POLICY_ARGUMENTS") or "")),
        kind_label=label or None,
        high_class=high,
        known=True,
    )


def simulate(
    session: Session, manifest: Object, present: Present, allocator: Allocator
) -> Simulation:
    """Simulate a job in the present cluster. Raises CommandError for a job that would be
    refused.
    """
    from di_operator.allocator.forecast.hypothetical_job import Trial  # noqa: PLC0415  # not for every command

    now = session.now()
    namespace = str(mapping(manifest.get("metadata")).get("namespace") or session.namespace)
    taken = {
        str(job["metadata"]["name"])
        for job in present.jobs
        if job["metadata"].get("namespace") == namespace
    }
    try:
        trial = Trial.of(manifest, namespace=namespace, now=now, taken=taken)
        surroundings = _surroundings(session, present, allocator)
        own = surroundings.forecast(trial)
        raised = None
        if not own.starts and not trial.is_high and allocator.policy:
            raised = surroundings.forecast(trial.raised())
        ends = [] if own.starts or own.impossible else _ends(present, now)
        first = surroundings.first_end(trial, [end.uid for end in ends]) if ends else None
        preempting, victims, unknown = _preempting(session, trial, own, present, allocator)
        outcome = _outcome(own)
        ruling = ruling_of(session, trial, _placed_pods(outcome))
    except InvalidSpec as error:
        raise CommandError(
            "the job would be refused",
            where="\n".join(f"{each.path}: {each.advice}" for each in error.errors),
            remedy="the API server checks the rest: di submit FILE --dry-run server",
        ) from error
    except (ConversionFailed, ValueError) as error:
        raise CommandError("the job cannot be tried", where=str(error)) from error
    decides = allocator.policy if trial.asks_allocator else ""
    return Simulation(
        key=f"{namespace}/{mapping(manifest.get('metadata')).get('name') or 'trial'}",
        policy=decides,
        known=allocator.known,
        outcome=outcome,
        ruling=ruling,
        preempting=preempting,
        victims=victims,
        raised=_outcome(raised) if raised is not None and raised.starts else None,
        when=next((end for end in ends if end.uid == first), None),
        ends=len(ends),
        unread=present.unread,
        unknown=[*ruling.notes, *([unknown] if unknown else ())],
    )


def _placed_pods(outcome: Outcome) -> dict[str, int]:
    placed = outcome.later or outcome.now
    return {task: sum(nodes.values()) for task, nodes in placed.items()}


def _preempting(
    session: Session, trial: Trial, own: Forecast, present: Present, allocator: Allocator
) -> tuple[Outcome | None, int, str]:
    """Return the outcome for a job of the cluster's scheduler if that preempts pods of lower
    priority, the number of such pods on its nodes, and what is unknown.
    """
    if own.starts or own.impossible or (allocator.policy and trial.asks_allocator):
        return None, 0, ""
    lower, unknown = below(session, trial, present, allocator.high_class)
    if not lower:
        return None, 0, unknown
    gone = {id(pod) for pod in lower}
    others = replace(present, pods=[pod for pod in present.pods if id(pod) not in gone])
    found = _outcome(_surroundings(session, others, allocator).forecast(trial))
    nodes = {name for placed in found.now.values() for name in placed}
    return (found, on_nodes(lower, nodes), "") if found.now else (None, 0, "")


def expected_starts(
    session: Session, present: Present, allocator: Allocator
) -> dict[str, End | None]:
    """Return by UID the end after which each waiting job starts; None: at the allocator's next
    round.

    Jobs without a forecast are left out: those that do not wait for capacity, and those whose
    capacity has no known end.
    """
    ends = _ends(present, session.now())
    found = _surroundings(session, present, allocator).starts([end.uid for end in ends])
    by_uid = {end.uid: end for end in ends}
    return {uid: by_uid.get(after or "") for uid, after in found.items()}


def queue_states(session: Session, present: Present, allocator: Allocator) -> list[Queue]:
    """Return what namespaces have of their allocator queues."""
    return [
        Queue(
            namespace=each.namespace,
            weight=each.weight,
            resource=each.resource,
            guarantee=_in_units(each.guarantee),
            quota=_in_units(each.quota),
            used=each.used / _UNIT,
            borrowed=each.borrowed / _UNIT,
        )
        for each in _surroundings(session, present, allocator).queues()
    ]


def _in_units(amount: int | None) -> float | None:
    return None if amount is None else amount / _UNIT


def _ends(present: Present, now: datetime) -> list[End]:
    """Return the future ends that are simulated, the next first."""
    most = min(_MOST_ENDS, max(1, _MOST_WORK // max(1, len(present.jobs))))
    return ends_of(present.jobs, now)[:most]


def _surroundings(session: Session, present: Present, allocator: Allocator) -> Surroundings:
    from di_operator.allocator.forecast.cluster_snapshot import look_at  # noqa: PLC0415  # not for every command
    from di_operator.allocator.policies.registry import PolicyError, load_policy  # noqa: PLC0415

    try:
        policy = load_policy(allocator.policy, allocator.arguments) if allocator.policy else None
    except PolicyError as error:
        raise CommandError(
            "the cluster's policy is not to be had here", where=str(error), remedy="--policy fit"
        ) from error
    return look_at(
        jobs=present.jobs,
        nodes=present.nodes,
        pods=present.pods,
        policy=policy,
        now=session.now(),
        kind_label=allocator.kind_label,
    )


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise CommandError(
            "the policy's arguments are no JSON", where=str(error), remedy="--policy NAME:{...}"
        ) from error
    return mapping(found)


def _outcome(found: Forecast) -> Outcome:
    return Outcome(
        now=_placed(found.at_once),
        later=_placed(found.later),
        shifts=[
            Shift(
                key=each.key,
                change=each.change.value,
                before=_counts(each.before),
                after=_counts(each.after),
            )
            for each in found.shifts
        ],
        obstacle=found.obstacle,
        impossible=found.impossible,
    )


def _placed(nodes: NodeList) -> Placed:
    return {task: dict(Counter(names)) for task, names in nodes.tasks if names}


def _counts(nodes: NodeList) -> Mapping[str, int]:
    return {task: len(names) for task, names in nodes.tasks}
