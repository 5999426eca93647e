"""Quotas and priorities, which decide on a job's pods besides the capacity of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from di_api.field_error import items, mapping
from di_api.ownership import controller_uid
from di_api.spec import Priority
from di_cli.present import Present
from di_cli.session import Session
from di_cli.views.quotas import Pods, Ruling, judge
from di_kube.errors import Forbidden
from di_kube.resources import PRIORITY_CLASSES, QUOTAS

if TYPE_CHECKING:
    from di_operator.allocator.forecast.hypothetical_job import Trial

Object = Mapping[str, Any]


def ruling_of(session: Session, trial: Trial, placed: Mapping[str, int]) -> Ruling:
    """Return what the quotas of the job's namespace refuse: for the placed pods, by task, or
    without any for the minimum that it begins with.
    """
    namespace = trial.key.partition("/")[0]
    try:
        quotas = session.client.list(QUOTAS, namespace)[0]
    except Forbidden:
        note = f"you may not list the quotas of namespace {namespace}, which may refuse the pods"
        return Ruling(notes=(note,))
    return judge(quotas, list(_pods(trial, placed))) if quotas else Ruling()


def below(
    session: Session, trial: Trial, present: Present, high_class: str
) -> tuple[list[Object], str]:
    """Return the pods outside of jobs that the cluster's scheduler can preempt for the job's, and
    what is unknown, as text.

    Args:
        session: of the user.
        trial: the job.
        present: the present objects.
        high_class: PriorityClass of jobs with high priority; empty: none.
    """
    names = _classes(trial, high_class)
    try:
        classes = session.client.list(PRIORITY_CLASSES)[0]
    except Forbidden:
        if names != {""}:
            return [], "whether others would be preempted: you may not list PriorityClasses"
        # Without a class of its own it has the cluster's default, which is usually none.
        classes = []
    known = {str(each["metadata"]["name"]): each for each in classes}
    default = next((name for name, each in known.items() if each.get("globalDefault")), "")
    own = [known.get(name or default, {}) for name in names]
    if any(each.get("preemptionPolicy") == "Never" for each in own):
        return [], ""
    lowest = min(_value(each) for each in own)
    jobs = {job["metadata"].get("uid") for job in present.jobs}
    ordinary = (pod for pod in present.pods if controller_uid(pod) not in jobs)
    return [pod for pod in ordinary if _node(pod) and _priority(pod) < lowest], ""


def on_nodes(pods: list[Object], nodes: set[str]) -> int:
    """Return how many of the pods are on these nodes."""
    return sum(_node(pod) in nodes for pod in pods)


def _pods(trial: Trial, placed: Mapping[str, int]) -> Iterator[Pods]:
    spec = trial.spec
    if spec.coordinated is not None:
        yield _of("coordinator", mapping(spec.coordinated.coordinator.template.get("spec")), 1)
        return
    for task in spec.tasks:
        least = task.min_replicas or task.replicas if trial.asks_allocator else task.replicas
        count = placed.get(task.name, 0) if placed else least * task.pods_per_replica
        # One for each different template; most tasks have one.
        templates = [mapping(task.template_of(index).get("spec")) for index in range(count)]
        counts = Counter(map(id, templates))
        for template in {id(each): each for each in templates}.values():
            yield _of(task.name, template, counts[id(template)])


def _of(task: str, pod: Object, count: int) -> Pods:
    return Pods(task=task, count=count, requests=_amounts(pod), limits=_amounts(_by_limits(pod)))


def _amounts(pod: Object) -> dict[str, Decimal]:
    # Imported here for the same reason as in forecasting.
    from di_operator.allocator.model.resources import PODS, UNIT, pod_request  # noqa: PLC0415

    found = pod_request(pod)
    return {name: Decimal(amount) / UNIT for name, amount in found.items() if name != PODS}


def _by_limits(pod: Object) -> Object:
    """Return the pod as if it requested the limits of its containers."""

    def limited(container: Object) -> Object:
        limits = mapping(mapping(container.get("resources")).get("limits"))
        return {**container, "resources": {"requests": limits}}

    kinds = ("containers", "initContainers")
    return {kind: [limited(mapping(each)) for each in items(pod.get(kind))] for kind in kinds}


def _classes(trial: Trial, high_class: str) -> set[str]:
    """Return the names of the PriorityClasses of the job's pods; empty if none is named."""
    spec = trial.spec
    templates = (
        [spec.coordinated.coordinator.template]
        if spec.coordinated is not None
        else [task.template for task in spec.tasks]
    )
    own = high_class if spec.priority is Priority.HIGH else ""
    return {str(mapping(each.get("spec")).get("priorityClassName") or own) for each in templates}


def _priority(pod: Object) -> int:
    return _value({"value": mapping(pod.get("spec")).get("priority")})


def _value(found: Object) -> int:
    value = found.get("value")
    return value if isinstance(value, int) else 0


def _node(pod: Object) -> str:
    return str(mapping(pod.get("spec")).get("nodeName") or "")
