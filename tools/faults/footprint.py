"""What a run left behind, with everything taken out that differs from run to run anyway."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from di_api.names import LABEL_OPERATOR, OPERATOR_NAME
from di_kube.client import KubeClient
from di_kube.resources import CONFIGMAPS, DIJOBS, EVENTS, PODS, SERVICES

Object = dict[str, Any]

_OURS = f"{LABEL_OPERATOR}={OPERATOR_NAME}"
_VOLATILE = frozenset(
    {"managedFields", "resourceVersion", "creationTimestamp", "uid", "generation"}
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TOKEN = re.compile(r"(kube-api-access)-[a-z0-9]{5}")
# Where a list's order means nothing its items are told apart by one of these.
_KEYS = ("type", "name")
_WORDS = ("Traceback", '"exception"', "never retrieved")
# How a process ends is judged by its exit code; a busy machine meets the bounds of the shutdown.
_OF_THE_END = frozenset({"exiting", "a task did not end", "lease not released: a part did not end"})
# The cluster's scheduler writes it where a pod waited for a node, which no plan is about.
_OF_SCHEDULER = re.compile(r"^pods/[^.]+\.status\.conditions\[PodScheduled\]\.observedGeneration$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """End state and history of one run.

    Attributes:
        state: every value of every object left, by path.
        creates, deletes: writes the API server carried out for the operator, by object.
        pods: distinct pods that ever were, by name.
        events: counts of the job's events by (type, reason).
        complaints: tracebacks and errors in the logs.
    """

    state: Mapping[str, str]
    creates: Mapping[str, int] = field(default_factory=dict)
    deletes: Mapping[str, int] = field(default_factory=dict)
    pods: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[tuple[str, str], int] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()


async def read_state(client: KubeClient, namespace: str) -> dict[str, str]:
    """Read the end state of a namespace."""
    state: dict[str, str] = {}
    for resource, selector in (
        (DIJOBS, None),
        (PODS, _OURS),
        (SERVICES, _OURS),
        (CONFIGMAPS, _OURS),
    ):
        items, _ = await client.list(resource, namespace, label_selector=selector)
        for item in items:
            start = f"{resource.plural}/{item['metadata']['name']}"
            state |= dict(_flat(start, item, namespace))
    return {path: value for path, value in state.items() if not _OF_SCHEDULER.match(path)}


async def read_events(client: KubeClient, namespace: str) -> Counter[tuple[str, str]]:
    """Count the operator's events by type and reason."""
    items, _ = await client.list(EVENTS, namespace)
    counts: Counter[tuple[str, str]] = Counter()
    for event in items:
        if event.get("involvedObject", {}).get("kind") == "DIJob":
            counts[event["type"], event["reason"]] += event.get("count") or 1
    return counts


def complaints(log: str) -> Iterator[str]:
    """Find what no fault may cause: a traceback, an error level, a task nobody looked after."""
    for line in log.splitlines():
        if _is_error(line) or any(word in line for word in _WORDS):
            yield line[:2000]


def _is_error(line: str) -> bool:
    try:
        entry = json.loads(line)
    except ValueError:  # no line of a service
        return False
    is_error = isinstance(entry, dict) and entry.get("level") == "error"
    return is_error and entry.get("event") not in _OF_THE_END


def differing(states: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """Return the paths whose values are not the same in all states: the mask."""
    present = list(states)
    paths = set().union(*present)
    return frozenset(path for path in paths if len({state.get(path) for state in present}) > 1)


def _flat(path: str, value: object, namespace: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _VOLATILE:
                yield from _flat(f"{path}.{key}", inner, namespace)
        if not value:
            yield path, "{}"
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _flat(f"{path}[{_key(inner, index)}]", inner, namespace)
    else:
        # A UID may have the name of a namespace, f-7, in it.
        text = _UID.sub("<uid>", _TIME.sub("<time>", str(value)))
        yield path, _TOKEN.sub(r"\1", text.replace(namespace, "<namespace>"))


def _key(item: object, index: int) -> str:
    if isinstance(item, Mapping):
        for key in _KEYS:
            if key in item:
                return _TOKEN.sub(r"\1", str(item[key]))
    return str(index)
