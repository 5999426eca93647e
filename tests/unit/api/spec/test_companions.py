"""`spec.companions`: what a job may bring along, in any cluster and in one."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from di_api.companions import CompanionKind, may_be_allowed, read_kinds, with_job_name
from di_api.spec.bounds import MAX_COMPANIONS
from di_api.validation import foreign_kinds, load_leniently, validate_job, validate_update
from di_api.validation.companions import MAX_COMPANION_BYTES, MAX_DEPTH
from tests.unit.api.jobs import job

Object = dict[str, Any]
CONFIG_MAP = CompanionKind(api_version="v1", kind="ConfigMap", resource="configmaps")


def companion(name: object = "$(JOB)-a", **fields: Any) -> Object:
    """A ConfigMap; `metadata` in fields goes beside the name."""
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}


def claim(name: str = "$(JOB)-a", **fields: Any) -> Object:
    return companion(name, kind="PersistentVolumeClaim", **fields)


def complaints(*companions: object, **metadata: Any) -> dict[str, str]:
    body = job(companions=list(companions))
    body["metadata"].update(metadata)
    return {error.path: error.message for error in validate_job(body)}


def nested(depth: int) -> Object:
    value: Object = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "good",
    [
        companion("$(JOB)"),
        companion("$(JOB)-a.b".replace(".", "-")),
        companion(data={"a": "$(JOB)", "b": "$$(JOB)"}, binaryData=None),
        companion(metadata={"namespace": "rl", "labels": {"a": "b"}, "annotations": {"c": "d"}}),
        companion(metadata={"generateName": None, "labels": None}),
        claim(spec={"accessModes": ["ReadWriteOnce"]}),
        companion(apiVersion="resource.k8s.io/v1", kind="ResourceClaimTemplate"),
        companion(apiVersion="extensions.agents.x-k8s.io/v1alpha1", kind="SandboxWarmPool"),
        companion(spec=nested(MAX_DEPTH - 2)),
    ],
)
def test_a_good_companion_is_accepted(good: Object) -> None:
    assert complaints(good, namespace="rl") == {}
    spec = load_leniently(job(companions=[good])["spec"])
    assert spec.companions == (good,)


NOT_NAMED = "must be $(JOB), or $(JOB)- and then"


@pytest.mark.parametrize(
    ("bad", "path", "words"),
    [
        *(
            (companion(name), ".metadata.name", NOT_NAMED)
            for name in (
                *("shared", "$(JOB)x", "$(JOB)-", "$(JOB)-A", "$$(JOB)", "$(JOB)-a\n", None, 7),
                "$(JOB)-" + "a" * 9999,
            )
        ),
        (companion("$(JOB)-" + "a" * 62), ".metadata.name", "characters; it may have 63"),
        *(
            (companion() | {"metadata": metadata}, ".metadata", "must be an object with a name")
            for metadata in cast("list[object]", [None, []])
        ),
        (companion() | {"kind": None}, ".kind", "is required"),
        (companion() | {"apiVersion": 1}, ".apiVersion", "is required"),
        *((bad, "", "must be an object") for bad in ("text", None)),
        (companion(metadata={"namespace": "other"}), ".metadata.namespace", "the job's own"),
        *(
            (companion(metadata={field: value}), f".metadata.{field}", "not taken")
            for field, value in (
                *(("ownerReferences", []), ("finalizers", ["a/b"])),
                *(("generateName", "a"), ("uid", "a")),
            )
        ),
        *(
            (companion(metadata={field: {key: "b"}}), f'.metadata.{field}["{key}"]', "are reserved")
            for field, key in (("labels", "diengine/job"), ("annotations", "diengine/x"))
        ),
        (companion(metadata={"labels": {"a": 1}}), ".metadata.labels.a", "must be a string"),
        (companion(metadata={"labels": ["a"]}), ".metadata.labels", "must be an object"),
        *((companion(spec=nested(depth)), "", "within each other") for depth in (MAX_DEPTH, 9**4)),
    ],
)
def test_a_bad_companion_is_refused_with_path_and_reason(
    bad: object, path: str, words: str
) -> None:
    found = complaints(bad, namespace="rl")
    assert list(found) == [f"spec.companions[0]{path}"]
    assert words in found[f"spec.companions[0]{path}"]


def test_all_bad_companions_are_reported_in_full() -> None:
    secret, labelled = companion(kind="Secret"), companion(metadata={"labels": {"diengine/a": "b"}})
    bad = job(companions=["a", companion(spec=nested(99)), {}, companion(None), secret, labelled])
    assert [str(error).removeprefix("spec.companions") for error in validate_job(bad)] == [
        '[0]: "a": must be an object',
        "[1]: an object: has more than 64 objects and lists within each other",
        "[2].apiVersion: is required",
        "[2].kind: is required",
        "[2].metadata: must be an object with a name",
        "[3].metadata.name: must be $(JOB), or $(JOB)- and then lower-case letters, digits and "
        "dashes: what is not called after the job may be another's",
        '[4].kind: "Secret": is no kind that jobs may ever bring along, as apiVersion v1: of '
        "Kubernetes' own kinds only those that hold data or ask for room and devices",
        '[5].metadata.labels["diengine/a"]: "b": keys of diengine/ are reserved',
    ]


def test_the_name_of_a_companion_has_to_fit_and_to_be_free() -> None:
    long = companion("$(JOB)-" + "a" * 56)
    generated = {"name": None, "generateName": "x"}
    for fits, too_long in (({"name": "x" * 6}, {"name": "x" * 7}),
                           (generated, {**generated, "generateName": "xx"})):  # fmt: skip
        assert complaints(long, **fits) == {}
        assert list(complaints(long, **too_long)) == ["spec.companions[0].metadata.name"]
    # That of the job's node lists: only where the job is called di.
    assert complaints(companion("$(JOB)-di"), name="di") == {
        "spec.companions[0].metadata.name": "is di-di then, the ConfigMap of the job's node lists"
    }
    assert complaints(claim("$(JOB)-di"), name="di") == {}
    assert complaints(companion("$(JOB)-di"), name="dj") == {}


def test_names_of_companions_are_unique_within_a_kind() -> None:
    assert complaints(companion(), claim()) == {}
    assert complaints(companion(), claim(), companion()) == {
        "spec.companions[2].metadata.name": "is the name of spec.companions[0] already"
    }
    groups = [companion(apiVersion=f"{group}/v1", kind="Pool") for group in ("x.org", "y.org")]
    assert complaints(*groups) == {}
    versions = [companion(apiVersion=f"x.org/{v}", kind="Pool") for v in ("v1", "v2")]
    assert list(complaints(*versions)) == ["spec.companions[1].metadata.name"]


def test_number_and_size_of_companions_are_bounded() -> None:
    some = [companion(f"$(JOB)-{number}") for number in range(MAX_COMPANIONS + 1)]
    assert complaints(*some[:-1]) == {}
    assert complaints(*some) == {
        "spec.companions": f"must hold at most {MAX_COMPANIONS} companions"
    }
    # What the name makes of it counts.
    half = "$(JOB)" * (MAX_COMPANION_BYTES // 24)
    assert complaints(companion(data={"a": half}), name="x" * 12) == {}
    both = complaints(companion(data={"a": half}), claim(spec={"a": half}), name="x" * 12)
    assert list(both) == ["spec.companions"]
    bytes_ = rf"have \d+ bytes as JSON; together they may have {MAX_COMPANION_BYTES}"
    assert re.fullmatch(bytes_, both["spec.companions"])
    grows = companion(data={"a": "$(JOB)" * (MAX_COMPANION_BYTES // 12)})
    assert complaints(grows, name="x" * 6) == {}
    assert list(complaints(grows, name="x" * 13)) == ["spec.companions"]


@pytest.mark.proves("security.md#companions/*")
@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        *(("v1", kind) for kind in ("Pod", "Secret", "Service", "ServiceAccount", "Namespace")),
        ("v1", "PersistentVolume"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "Job"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
        ("coordination.k8s.io/v1", "Lease"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("diengine.opendilab.org/v2alpha1", "DIJob"),
        ("x.resource.k8s.io/v1", "ResourceClaim"),
        ("resource.k8s.io/v1", "ResourceSlice"),
        *((version, "ConfigMap") for version in ("v1/../../v1", "x.org/v1/../../..", "")),
        *((version, "Pool") for version in ("X.org/v1", "x.org/")),
        ("/v1", "Secret"),
    ],
)
def test_kinds_that_would_add_permissions_are_never_accepted(api_version: str, kind: str) -> None:
    assert not may_be_allowed(api_version, kind)
    found = complaints(companion(apiVersion=api_version, kind=kind))
    assert list(found) == ["spec.companions[0].kind"]
    assert "no kind that jobs may ever bring along" in found["spec.companions[0].kind"]
    with pytest.raises(ValueError, match="ever"):
        list(read_kinds([{"apiVersion": api_version, "kind": kind, "resource": "secrets"}]))


def test_a_list_of_kinds_is_read() -> None:
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "resource": "configmaps"}
    pool = {"apiVersion": "x.org/v1", "kind": "Pool", "resource": "pools"}
    assert list(read_kinds([raw, pool])) == [
        CONFIG_MAP,
        CompanionKind(api_version="x.org/v1", kind="Pool", resource="pools"),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        {},
        [7],
        [{"apiVersion": "v1", "kind": "ConfigMap"}],
        [{"apiVersion": "v1", "kind": "ConfigMap", "resource": "secrets"}],
        *(
            [{"apiVersion": "x.org/v1", "kind": "Pool", "resource": "pools", **wrong}]
            for wrong in (
                *({"resource": "pools/status"}, {"resource": "*"}),
                *({"kind": "pool"}, {"apiVersion": "x.org/*"}),
            )
        ),
    ],
)
def test_a_bad_list_of_kinds_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(read_kinds(bad))


def test_a_cluster_accepts_the_kinds_that_it_allows() -> None:
    foreign = companion(apiVersion="apps/v1")
    body = job(companions=["text", companion(kind=1), companion(), claim(), foreign])
    (error,) = foreign_kinds(body, [CONFIG_MAP])
    assert str(error) == (
        'spec.companions[3].kind: "PersistentVolumeClaim": is no kind that jobs may bring along in '
        "this cluster, as apiVersion v1; allowed: ConfigMap (v1)"
    )
    first, _ = foreign_kinds(body, [])
    assert "allowed: none" in first.message
    assert not list(foreign_kinds(job(), []))
    assert not list(foreign_kinds({}, []))


def test_companions_may_not_change() -> None:
    old, new = job(companions=[companion()]), job(companions=[companion(data={"a": "b"})])
    (error,) = validate_update(old, new)
    assert error.path == "spec.companions[0].data"
    assert "may not change while the job exists" in error.message
    assert len(validate_update(old, job())) == 1


def test_the_name_of_the_job_is_substituted_in_texts_but_not_in_keys() -> None:
    given = {"$(JOB)": ["$(JOB)-a", {"b": "$(JOB)/$(JOB)"}, 7, None, True], "c": "$$(JOB) $(JOB"}
    assert with_job_name(given, "x") == {
        "$(JOB)": ["x-a", {"b": "x/x"}, 7, None, True],
        "c": "$(JOB) $(JOB",
    }
