"""Manifests of other operators with any of their fields, and what became of each value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hypothesis import strategies as st

from di_api.field_error import child
from di_cli.convert.fields import RefusedManifest
from di_cli.convert.manifests import Converted, converted

Object = dict[str, Any]

WORDS: Final = st.from_regex(r"v[a-z0-9]{6}", fullmatch=True)
"""Values that no other field has by chance."""
_OF_ROLES: Final = (
    *("the first pod", "the first worker", "the job has succeeded", "it has no pod"),
    "the image needs",
)
"""Beginnings of comments on a whole replica type, which stand for none of its fields."""
_TRANSLATED: Final[Mapping[tuple[str, object], frozenset[str]]] = {
    ("restartPolicy", "OnFailure"): frozenset({"Restart", "RestartTask"}),
    ("restartPolicy", "Never"): frozenset({"FailJob"}),
    ("restartPolicy", "ExitCode"): frozenset({"128-255"}),
    ("action", "FailJobSet"): frozenset({"FailJob"}),
    ("action", "RestartJob"): frozenset({"RestartTask", "Restart"}),
    ("action", "RestartPod"): frozenset({"Restart"}),
    ("event", "PodFailed"): frozenset({"RestartJob", "Restart", "FailJob"}),
    ("event", "PodEvicted"): frozenset({"DisruptionTarget"}),
    ("event", "TaskCompleted"): frozenset({"CompleteJob", "RestartJob", "RestartTask", "FailJob"}),
    ("status", "Ready"): frozenset({"first"}),
    ("successPolicy", "AllWorkers"): frozenset({"worker"}),
    # The launcher is one more pod: test_mpi.py counts them.
    ("runLauncherAsWorker", True): frozenset({"mpi"}),
}
"""Words of a DIJob for words of other kinds, by the last field."""


def convert_one(manifest: object) -> Converted:
    """The one DIJob of a manifest."""
    (found,) = converted([manifest])
    return found


def outcome(manifest: object) -> Converted | str:
    """The one DIJob of a manifest, or why it was refused."""
    try:
        return convert_one(manifest)
    except RefusedManifest as refused:
        return refused.reason


def some(required: Object, optional: Object) -> st.SearchStrategy[Object]:
    """Objects with all of some fields and any of others, and perhaps an unknown one."""
    unknown = {"surprise": st.fixed_dictionaries({"inner": WORDS})}
    return st.fixed_dictionaries(required, optional={**optional, **unknown})


def lost(manifest: Object, found: Converted) -> list[str]:
    """Paths of the values that are neither in the DIJob nor in a comment."""
    kept = {str(value) for _, value in leaves(found.job)}
    covered = [each.path for each in found.comments if not each.why.startswith(_OF_ROLES)]
    return [
        path
        for path, value in leaves(manifest)
        if str(value) not in kept
        and not _TRANSLATED.get((path.rpartition(".")[2], value), frozenset()) & kept
        and not any(_is_below(path, each) for each in covered)
        and path not in ("apiVersion", "kind")
        # Their sum: see `pods`.
        and not path.endswith(".replicas")
    ]


def pods(specs: Object) -> int:
    """The pods of all replica types."""
    return sum(each.get("replicas", 1) for each in specs.values())


def pods_of(found: Converted) -> int:
    """The pods of all tasks of a DIJob."""
    tasks = found.job["spec"]["tasks"]
    return sum(each.get("replicas", 1) * each.get("podsPerReplica", 1) for each in tasks)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values of an object, with their paths."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, child(path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, child(path, index))
    elif value is not None:
        yield path, value


def template(container: str, port: str) -> st.SearchStrategy[Object]:
    """Pod templates with a container of the kind's name, and perhaps one before it."""
    ports = st.fixed_dictionaries(
        {"name": st.sampled_from([port, "metrics"]), "containerPort": st.just(23456)}
    )
    main = st.fixed_dictionaries(
        {"name": st.just(container), "image": WORDS},
        optional={
            "command": st.lists(WORDS, max_size=2),
            "args": st.lists(WORDS, max_size=2),
            "env": st.lists(
                st.fixed_dictionaries({"name": WORDS, "value": WORDS}), max_size=2, unique_by=_name
            ),
            "ports": st.lists(ports, max_size=1),
        },
    )
    beside = st.fixed_dictionaries({"name": st.just("sidecar"), "image": WORDS})
    spec = st.fixed_dictionaries(
        {"containers": st.lists(beside, max_size=1).flatmap(lambda o: main.map(lambda m: [*o, m]))},
        optional={
            "nodeSelector": st.dictionaries(WORDS, WORDS, max_size=2),
            "restartPolicy": st.just("OnFailure"),
            "hostname": WORDS,
            "priorityClassName": WORDS,
            "serviceAccountName": WORDS,
        },
    )
    metadata = some(
        {},
        {
            "labels": st.dictionaries(WORDS, WORDS, max_size=2),
            "name": WORDS,
            "creationTimestamp": st.none(),
        },
    )
    return st.fixed_dictionaries({"spec": spec}, optional={"metadata": metadata})


def metadata() -> st.SearchStrategy[Object]:
    """Metadata of a job, perhaps as the API server returns it."""
    return some(
        {"name": st.just("job")},
        {
            "namespace": WORDS,
            "uid": WORDS,
            "labels": st.dictionaries(WORDS, WORDS, max_size=2),
            "annotations": st.dictionaries(
                st.one_of(WORDS, st.just("kubectl.kubernetes.io/last-applied-configuration")),
                WORDS,
                max_size=2,
            ),
        },
    )


def run_policy() -> st.SearchStrategy[Object]:
    """The fields that all kinds of the training-operator have."""
    scheduling = some(
        {},
        {
            "minAvailable": st.just(1234),
            "queue": WORDS,
            "minResources": st.dictionaries(WORDS, WORDS, max_size=2),
            "priorityClass": WORDS,
            "scheduleTimeoutSeconds": st.just(77),
        },
    )
    return some(
        {},
        {
            "cleanPodPolicy": st.sampled_from(["", "All", "Running", "None"]),
            "ttlSecondsAfterFinished": st.just(601),
            "activeDeadlineSeconds": st.just(602),
            "backoffLimit": st.just(603),
            "suspend": st.just(True),
            "managedBy": st.sampled_from(["kubeflow.org/training-operator", "example.org/x"]),
            "schedulingPolicy": scheduling,
        },
    )


def roles(
    pods: st.SearchStrategy[Object], required: str, *others: str
) -> st.SearchStrategy[Object]:
    """Replica types of the training-operator, all of one template or each of its own."""
    policies = st.sampled_from(["Always", "OnFailure", "Never", "ExitCode"])

    def of(each: st.SearchStrategy[Object]) -> st.SearchStrategy[Object]:
        one, several = (
            some({"template": each}, {"replicas": count, "restartPolicy": policies})
            for count in (st.just(1), st.integers(min_value=1, max_value=4))
        )
        return st.fixed_dictionaries({required: one}, optional=dict.fromkeys(others, several))

    return st.one_of(pods.map(st.just).flatmap(of), of(pods))


def manifests(
    kind: str, spec: st.SearchStrategy[Object], version: str = "kubeflow.org/v1"
) -> st.SearchStrategy[Object]:
    """Manifests of a kind, perhaps of a job that ran."""
    fixed = {"apiVersion": st.just(version), "kind": st.just(kind)}
    status = {"status": st.fixed_dictionaries({"startTime": st.just("2026")})}
    return some({**fixed, "metadata": metadata(), "spec": spec}, status)


def _is_below(path: str, place: str) -> bool:
    return re.match(rf"{re.escape(place)}(?:$|[.\[])", path) is not None


def _name(each: Object) -> Any:
    return each["name"]
