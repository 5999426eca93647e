"""Reads the content of an archive, with the user's permissions; never reads Secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from di_api.explain import explain
from di_api.field_error import items, mapping
from di_api.pods.main_container import all_statuses
from di_cli.bundle.contents import Material
from di_cli.diagnosis import Facts, diagnose, shown
from di_cli.gather import gather
from di_cli.logs.read import Asked, last_bytes, lines_of
from di_cli.reader import Reader
from di_cli.session import Session
from di_cli.survey import OF_RELEASES, survey
from di_cli.views.explanation import as_object
from di_cli.views.pods import in_order, name_of
from di_kube.errors import ApiError
from di_kube.resources import EVENTS, PODS

MOST_JOBS: Final = 50
MOST_LOGS: Final = 100
"""Maximum number of containers whose logs are read, those of the release first."""
LINES: Final = 500
"""Of each log, the last ones."""
_MOST_OF_A_LOG: Final = 1 << 20
"""Bytes of these."""
_OF_NODES: Final = ("conditions", "allocatable", "capacity", "nodeInfo")

Object = dict[str, Any]


def collect(session: Session, names: list[str], system: str | None = None) -> Material:
    """Read everything about some jobs, and the installation.

    Args:
        session: with the namespace of the jobs.
        names: of the jobs.
        system: namespace of the release, if not that of its Deployments.
    """
    reader = Reader(session)
    logs = _Logs(session, reader)
    facts = survey(session, system)
    objects: Object = {
        "doctor.json": shown.as_object(diagnose(facts)),
        "versions.json": _versions(facts),
        **_release(facts),
    }
    if len(names) > MOST_JOBS:
        reader.note(f"jobs beyond the first {MOST_JOBS}", ", ".join(names[MOST_JOBS:]))
    jobs = {name: gather(session, name) for name in names[:MOST_JOBS]}
    for name, found in jobs.items():
        objects[f"jobs/{name}/why.json"] = as_object(explain(found))
        objects[f"jobs/{name}/job.json"] = found.job
        objects[f"jobs/{name}/pods.json"] = found.pods
        objects[f"jobs/{name}/events.json"] = found.events
    where = f"of namespace {facts.system}"
    pods = reader.noted(f"pods {where}", reader.list(PODS, facts.system, selector=OF_RELEASES))
    objects["release/pods.json"] = [*pods]
    events = reader.noted(f"events {where}", reader.list(EVENTS, facts.system))
    objects["release/events.json"] = [*events]
    texts = {
        **logs.of("release", facts.system, pods),
        **{
            path: lines
            for name, found in jobs.items()
            for path, lines in logs.of(
                f"jobs/{name}", session.namespace, in_order(found.pods)
            ).items()
        },
    }
    return Material(objects=objects, texts=texts, unread=reader.unread)


class _Logs:
    """Reads a limited number of logs, and records those left out."""

    def __init__(self, session: Session, reader: Reader) -> None:
        self._client = session.client
        self._reader = reader
        self._read = 0

    def of(
        self, folder: str, namespace: str, pods: Iterable[Mapping[str, Any]]
    ) -> Mapping[str, list[str]]:
        """Return the last lines of all containers, including those before a restart after a
        failure.
        """
        found: dict[str, list[str]] = {}
        for pod in pods:
            for container, previous in _containers(pod):
                path = f"{folder}/logs/{name_of(pod)}.{container}{'.previous' * previous}.log"
                if self._read == MOST_LOGS:
                    self._reader.note(path, f"there are more than {MOST_LOGS} logs")
                    continue
                self._read += 1
                asked = Asked(container=container, tail=LINES, previous=previous)
                try:
                    lines = lines_of(self._client, namespace, name_of(pod), asked)
                    texts = (f"{time} {text}" for time, text in lines)
                    found[path], left_out = last_bytes(texts, _MOST_OF_A_LOG)
                    if left_out:
                        self._reader.note(path, f"{left_out} earlier lines are left out")
                except ApiError as error:
                    self._reader.note(path, error.message)
        return found


def _containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the containers that have run: the name, and whether it is the run before the last
    restart.
    """
    for each in all_statuses(pod):
        name, state = str(each.get("name")), mapping(each.get("state"))
        if "running" in state or "terminated" in state:
            yield name, False
        if mapping(each.get("lastState")).get("terminated"):
            yield name, True


def _versions(facts: Facts) -> Object:
    containers = {
        str(mapping(each.get("metadata")).get("name")): [
            mapping(container).get("image")
            for container in items(_pod_spec(each).get("containers"))
        ]
        for each in facts.deployments.found
    }
    return {
        "di": facts.program,
        "kubernetes": [*facts.version.found],
        "images": containers,
        "nodes": [
            {
                "name": mapping(node.get("metadata")).get("name"),
                **{key: mapping(node.get("status")).get(key) for key in _OF_NODES},
            }
            for node in facts.nodes.found
        ],
    }


def _pod_spec(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(mapping(deployment.get("spec")).get("template")).get("spec"))


def _release(facts: Facts) -> Object:
    """Return the parts of the release; of the CRD only what can differ."""
    definitions = [
        {**each, "spec": {"conversion": mapping(each.get("spec")).get("conversion")}}
        for each in facts.definition.found
    ]
    return {
        "release/deployments.json": [*facts.deployments.found],
        "release/webhooks.json": [*facts.mutating.found, *facts.validating.found],
        "release/definition.json": definitions,
        "release/leases.json": [*facts.leases.found],
        "quotas.json": [*facts.quotas.found],
    }
