"""Values that an API server takes by a structural schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hypothesis import strategies as st

from di_api.quantity import AMOUNT_PATTERN
from tests.unit.api.quantities import TAKEN, TOO_LARGE

Schema = Mapping[str, Any]
Strategies = Mapping[str, st.SearchStrategy[Any]]

# The fields that services read come up often; of hundreds of others one at a time.
READ: Final = frozenset(
    [
        *("affinity", "containerPort", "containers", "effect", "emptyDir", "env", "hostNetwork"),
        *("initContainers", "key", "labels", "annotations", "limits", "matchExpressions"),
        *("matchFields", "metadata", "name", "nodeAffinity", "nodeName", "nodeSelector"),
        *("nodeSelectorTerms", "operator", "overhead", "ports", "requests", "resources"),
        *("requiredDuringSchedulingIgnoredDuringExecution", "restartPolicy", "sizeLimit"),
        *("tolerations", "value", "values", "volumeMounts", "volumes", "mountPath"),
        *("coordinated", "coordinator", "collector", "learner", "replicas", "template", "role"),
        *("priorityClassName", "group", "preemptible", "scheduling", "gang", "suspend"),
        *("phase", "conditions", "failures", "placement", "placementTime", "taskStatus"),
        *("groups", "generation", "state", "members", "since", "lastJoin", "processGroup"),
        *("framework", "elastic", "lastCallSeconds", "deadlineSeconds", "minReplicas"),
        *("code", "configMap", "sha256", "requirements", "revision", "restartedAt"),
        *(
            "artifacts",
            "checkpoint",
            "volume",
            "persistentVolumeClaim",
            "checkpointStep",
            "restoreSeconds",
        ),
        *("nodeCheck", "avoidedNodes", "initContainerStatuses", "terminated", "message"),
        *("profilings", "progress", "startTime", "completionTimestamp"),
        *("replicaSeconds", "restarts", "service", "port", "targetPort", "select", "scope"),
        *("companions", "kind", "apiVersion", "completedIndexes"),
        *("podsPerReplica", "leaderTemplatePatch", "replicaAttempts", "templatePatch", "vacant"),
        *(
            "standby",
            "standIns",
            "drain",
            "path",
            "command",
            "timeoutSeconds",
            "terminationGracePeriodSeconds",
        ),
    ]
)
TEXTS: Final = (
    st.sampled_from(["", "x", "n1", "di-container", "di-port", "None", "1", "-1", "\u0661", "a/b"])
    | st.sampled_from(["9" * 400, "$(DI_RANK)", "\U0001f980", "a" * 63, "In", "Gt", "Exists"])
    | st.text(max_size=8).filter(lambda text: "\x00" not in text and text.isprintable())
)
LEAVES: Final = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e308, 1e308) | TEXTS
)
JSON: Final = st.recursive(
    LEAVES,
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(READ)) | TEXTS, below, max_size=3)
    ),
    max_leaves=8,
)
TIMES: Final = st.sampled_from(
    [
        *("2030-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
        *("2030-01-01T00:00:00.123456789Z", "2030-01-01T00:00:00+14:00"),
    ]
)
QUANTITIES: Final = (
    st.sampled_from(list(TAKEN))
    | st.sampled_from(TOO_LARGE)
    | st.integers(0, 2**63 - 1)
    | st.from_regex(AMOUNT_PATTERN.removesuffix("$"), fullmatch=True).filter(
        lambda text: len(text) <= 64
    )
)


# Unknown fields of templates are refused by all readers, so they are rare.
_MORE: Final = st.integers(0, 15).flatmap(
    lambda chance: (
        st.just({})
        if chance
        else st.dictionaries(st.sampled_from(sorted(READ)) | TEXTS, JSON, max_size=2)
    )
)
_EMBEDDED: Final = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from(["v1", "x.org/v1", "x.org"]),
        "kind": st.sampled_from(["ConfigMap", "Pool", "Pod"]),
    }
)
# Making strategies takes longer than drawing from them. With each its schema, or another could
# have its identity later.
_MADE: Final[dict[tuple[int, int], tuple[Schema, st.SearchStrategy[Any]]]] = {}


def admitted(schema: Schema, special: Strategies) -> st.SearchStrategy[Any]:
    """Values by the schema; fields whose name is in `special` get those instead."""
    key = id(schema), id(special)
    if key not in _MADE:
        found = _admitted(schema, special)
        _MADE[key] = schema, found | st.none() if schema.get("nullable") else found
    return _MADE[key][1]


def _admitted(schema: Schema, special: Strategies) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("pattern") == AMOUNT_PATTERN:
        return QUANTITIES
    if "type" not in schema and schema.get("x-kubernetes-int-or-string"):
        return TEXTS | st.integers(-(2**31), 2**31 - 1)
    kinds: Mapping[str, Callable[[Schema, Strategies], st.SearchStrategy[Any]]] = {
        "object": _objects,
        "array": _lists,
        "string": lambda found, _: _texts(found),
        "integer": lambda found, _: _numbers(found),
        "number": lambda *_: st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 99),
        "boolean": lambda *_: st.booleans(),
    }
    return kinds[schema["type"]](schema, special)


def _numbers(schema: Schema) -> st.SearchStrategy[int]:
    bits = 32 if schema.get("format") == "int32" else 64
    least, most = schema.get("minimum", -(2 ** (bits - 1))), 2 ** (bits - 1) - 1
    return st.integers(least, schema.get("maximum", most)) | st.integers(
        max(least, 0), max(least, 3)
    )


def _texts(schema: Schema) -> st.SearchStrategy[str]:
    if schema.get("format") == "date-time":
        return TIMES
    most = schema.get("maxLength", 10_000)
    pattern: str | None = schema.get("pattern")
    found = st.from_regex(pattern, fullmatch=True) if pattern is not None else TEXTS
    return found.filter(lambda text: len(text) <= most)


def _lists(schema: Schema, special: Strategies) -> st.SearchStrategy[list[Any]]:
    keys = schema.get("x-kubernetes-list-map-keys")
    return st.lists(
        admitted(schema["items"], special),
        min_size=schema.get("minItems", 0),
        max_size=max(schema.get("minItems", 0), 2),
        unique_by=(lambda item: tuple(item.get(key) for key in keys)) if keys else None,
    )


def _objects(schema: Schema, special: Strategies) -> st.SearchStrategy[dict[str, Any]]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    if "additionalProperties" in schema:
        values = admitted(schema["additionalProperties"], special)
        return st.dictionaries(_keys(), values, max_size=3)
    if not properties:
        return st.dictionaries(TEXTS, JSON, max_size=3) if _is_loose(schema) else st.just({})

    @st.composite
    def made(draw: st.DrawFn) -> dict[str, Any]:
        names = {*schema.get("required", ())}
        read, others = sorted(READ & {*properties}), sorted({*properties} - READ)
        if read:
            names |= draw(st.sets(st.sampled_from(read), max_size=4))
        if others:
            names |= draw(st.sets(st.sampled_from(others), max_size=1))
        value = {
            name: draw(special[name] if name in special else admitted(properties[name], special))
            for name in sorted(names)
        }
        if schema.get("x-kubernetes-embedded-resource"):
            value |= draw(_EMBEDDED)
        if _is_loose(schema):
            value = {k: v for k, v in draw(_MORE).items() if k not in properties} | value
        return value

    return made()


def _keys() -> st.SearchStrategy[str]:
    known = ["cpu", "memory", "nvidia.com/gpu", "pods", "app", "diengine/job", "diengine/rank"]
    return st.sampled_from([*known, "learner", "collector"]) | TEXTS


def _is_loose(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))
