"""`spec.companions`: what a job may bring along, in any cluster and in one."""

from __future__ import annotations

from typing import Any

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
def test_what_may_be_allowed_somewhere_is_taken(good: Object) -> None:
    assert complaints(good, namespace="rl") == {}
    spec = load_leniently(job(companions=[good])["spec"])
    assert spec.companions == (good,)


@pytest.mark.parametrize(
    ("bad", "path", "words"),
    [
        (companion("shared"), ".metadata.name", "must be $(JOB), or $(JOB)- and then"),
        (companion("$(JOB)x"), ".metadata.name", "must be $(JOB)"),
        (companion("$(JOB)-"), ".metadata.name", "must be $(JOB)"),
        (companion("$(JOB)-A"), ".metadata.name", "must be $(JOB)"),
        (companion("$$(JOB)"), ".metadata.name", "must be $(JOB)"),
        (companion("$(JOB)-a\n"), ".metadata.name", "must be $(JOB)"),
        (companion("$(JOB)-" + "a" * 62), ".metadata.name", "characters; it may have 63"),
        (companion("$(JOB)-" + "a" * 9999), ".metadata.name", "must be $(JOB)"),
        (companion(None), ".metadata.name", "must be $(JOB)"),
        (companion(7), ".metadata.name", "must be $(JOB)"),
        (companion() | {"metadata": None}, ".metadata", "must be an object with a name"),
        (companion() | {"metadata": []}, ".metadata", "must be an object with a name"),
        (companion() | {"kind": None}, ".kind", "is required"),
        (companion() | {"apiVersion": 1}, ".apiVersion", "is required"),
        ("text", "", "must be an object"),
        (None, "", "must be an object"),
        (companion(metadata={"namespace": "other"}), ".metadata.namespace", "the job's own"),
        (companion(metadata={"ownerReferences": []}), ".metadata.ownerReferences", "not taken"),
        (companion(metadata={"finalizers": ["a/b"]}), ".metadata.finalizers", "not taken"),
        (companion(metadata={"generateName": "a"}), ".metadata.generateName", "not taken"),
        (companion(metadata={"uid": "a"}), ".metadata.uid", "not taken"),
        (
            companion(metadata={"labels": {"diengine/job": "b"}}),
            '.metadata.labels["diengine/job"]',
            "are reserved",
        ),
        (
            companion(metadata={"annotations": {"diengine/x": ""}}),
            '.metadata.annotations["diengine/x"]',
            "are reserved",
        ),
        (companion(metadata={"labels": {"a": 1}}), ".metadata.labels.a", "must be a string"),
        (companion(metadata={"labels": ["a"]}), ".metadata.labels", "must be an object"),
        (companion(spec=nested(MAX_DEPTH)), "", "within each other"),
        (companion(spec=nested(100_000)), "", "within each other"),
    ],
)
def test_what_no_cluster_takes_is_refused_by_path_and_reason(
    bad: object, path: str, words: str
) -> None:
    found = complaints(bad, namespace="rl")
    assert list(found) == [f"spec.companions[0]{path}"]
    assert words in found[f"spec.companions[0]{path}"]


def test_the_name_with_the_jobs_own_has_to_fit_and_to_be_free() -> None:
    long = "$(JOB)-" + "a" * 56
    assert complaints(companion(long), name="x" * 6) == {}
    assert list(complaints(companion(long), name="x" * 7)) == ["spec.companions[0].metadata.name"]
    generated = {"name": None, "generateName": "x"}
    assert list(complaints(companion(long), **generated)) == []
    assert list(complaints(companion(long), **generated | {"generateName": "xx"})) != []
    # That of the job's node lists: only where the job is called di.
    assert complaints(companion("$(JOB)-di"), name="di") == {
        "spec.companions[0].metadata.name": "is di-di then, the ConfigMap of the job's node lists"
    }
    assert complaints(claim("$(JOB)-di"), name="di") == {}
    assert complaints(companion("$(JOB)-di"), name="dj") == {}


def test_names_may_not_repeat_within_a_kind() -> None:
    assert complaints(companion(), claim()) == {}
    assert complaints(companion(), claim(), companion()) == {
        "spec.companions[2].metadata.name": "is the name of spec.companions[0] already"
    }
    versions = [companion(apiVersion=f"x.org/{v}", kind="Pool") for v in ("v1", "v2")]
    assert list(complaints(*versions)) == ["spec.companions[1].metadata.name"]


def test_their_number_and_size_are_bounded() -> None:
    some = [companion(f"$(JOB)-{number}") for number in range(MAX_COMPANIONS + 1)]
    assert complaints(*some[:-1]) == {}
    assert complaints(*some) == {
        "spec.companions": f"must hold at most {MAX_COMPANIONS} companions"
    }
    half = "x" * (MAX_COMPANION_BYTES // 2)
    assert complaints(companion(data={"a": half})) == {}
    both = complaints(companion(data={"a": half}), claim(spec={"a": half}))
    assert list(both) == ["spec.companions"]
    assert f"together they may have {MAX_COMPANION_BYTES}" in both["spec.companions"]
    # What the name makes of it counts.
    grows = companion(data={"a": "$(JOB)" * (MAX_COMPANION_BYTES // 12)})
    assert complaints(grows, name="x" * 6) == {}
    assert list(complaints(grows, name="x" * 12)) == ["spec.companions"]


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Pod"),
        ("v1", "Secret"),
        ("v1", "Service"),
        ("v1", "ServiceAccount"),
        ("v1", "Namespace"),
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
        ("v1/../../v1", "ConfigMap"),
        ("x.org/v1/../../..", "ConfigMap"),
        ("X.org/v1", "Pool"),
        ("x.org/", "Pool"),
        ("/v1", "Secret"),
        ("", "ConfigMap"),
    ],
)
def test_kinds_that_would_give_an_author_more_rights_are_never_taken(
    api_version: str, kind: str
) -> None:
    assert not may_be_allowed(api_version, kind)
    found = complaints(companion(apiVersion=api_version, kind=kind))
    assert list(found) == ["spec.companions[0].kind"]
    assert "no kind that jobs may ever bring along" in found["spec.companions[0].kind"]
    with pytest.raises(ValueError, match="ever"):
        list(read_kinds([{"apiVersion": api_version, "kind": kind, "resource": "secrets"}]))


def test_the_kinds_of_a_cluster_are_read() -> None:
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
        [{"apiVersion": "x.org/v1", "kind": "Pool", "resource": "pools/status"}],
        [{"apiVersion": "x.org/v1", "kind": "Pool", "resource": "*"}],
        [{"apiVersion": "x.org/v1", "kind": "pool", "resource": "pools"}],
        [{"apiVersion": "x.org/*", "kind": "Pool", "resource": "pools"}],
    ],
)
def test_kinds_that_are_none_are_refused(bad: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(read_kinds(bad))


def test_a_cluster_takes_the_kinds_that_it_allows() -> None:
    body = job(companions=[companion(), claim(), companion(apiVersion="apps/v1"), "text"])
    (error,) = foreign_kinds(body, [CONFIG_MAP])
    assert error.path == "spec.companions[1].kind"
    assert "allowed: ConfigMap (v1)" in error.message
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


def test_the_jobs_name_stands_in_all_texts_and_in_no_key() -> None:
    given = {"$(JOB)": ["$(JOB)-a", {"b": "$(JOB)/$(JOB)"}, 7, None, True], "c": "$$(JOB) $(JOB"}
    assert with_job_name(given, "x") == {
        "$(JOB)": ["x-a", {"b": "x/x"}, 7, None, True],
        "c": "$(JOB) $(JOB",
    }
