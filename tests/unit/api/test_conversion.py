"""Jobs go to the older versions and back without loss, whatever they hold."""

from __future__ import annotations

import base64
import json
import zlib
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api import names
from di_api.conversion.annotation import (
    COMPRESSED,
    LARGEST,
    LONGEST,
    MOST_ANNOTATIONS,
    TOO_LARGE,
    pack,
    unpack,
)
from di_api.conversion.versions import VERSIONS, ConversionFailed, convert, with_unseen
from di_api.phase import Phase
from di_api.spec import MAX_REPLICAS
from tests.unit.api.jobs import template
from tests.unit.api.test_any_json import JSON

Job = dict[str, Any]
V2, OLD, OLDER = names.API_VERSION, f"{names.GROUP}/v1alpha2", f"{names.GROUP}/v1alpha1"
KEY = names.ANNOTATION_CONVERSION
FOREIGN = ["", "hello", "{}", "[1]", '{"spec":1}', '{"other":{}}', "zlib:", "zlib:aGVsbG8=", "nan"]


def fields(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Job]:
    """Objects with any of these fields."""
    return st.fixed_dictionaries({}, optional=strategies)


ROLE = fields(template=st.just(template()) | JSON) | JSON
SHARED = {"group": JSON, "cleanPodPolicy": JSON, "volumes": JSON}
ROLES = {"coordinator": ROLE, "collector": ROLE, "learner": ROLE, "priorityClassName": JSON}
TEXTS = fields(**{"a": st.text(max_size=3)})
METADATA = st.builds(
    lambda rest, annotations: {**rest, **({"annotations": annotations} if annotations else {})},
    fields(name=st.just("job"), labels=st.just({"a": "b"}), generation=st.integers()),
    st.builds(
        lambda rest, own: {**rest, **({} if own is None else {KEY: own})},
        TEXTS,
        st.none() | st.sampled_from(FOREIGN) | st.text(max_size=5),
    ),
)


def condition(*types: str) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"type": st.sampled_from(types), "status": JSON}) | JSON


def jobs(version: str, spec: Any, status: Any) -> st.SearchStrategy[Job]:
    return st.builds(
        lambda metadata, rest: {
            "apiVersion": version,
            "kind": names.KIND,
            "metadata": metadata,
            **rest,
        },
        METADATA,
        # Nearly always there: it is what conversion is about.
        st.builds(lambda spec, rest: {"spec": spec, **rest}, spec, fields(status=status)),
    )


V1_STATUS = fields(
    phase=st.sampled_from(["Created", "Running", "Succeeded", "Failed", "Unknown"]),
    conditions=st.lists(condition("Created", "Running", "Failed"), max_size=3),
    replicaStatus=JSON,
)
V1_JOBS = jobs(OLDER, fields(**SHARED, **ROLES) | st.none() | st.integers(), V1_STATUS | st.none())
V2_ONLY = {"priority": JSON, "backoffLimit": JSON, "suspend": JSON, "tasks": JSON, "odd": JSON}
V2_STATUS = fields(
    phase=st.sampled_from([*(phase.value for phase in Phase), "Unknown"]) | JSON,
    conditions=st.lists(condition("Starting", "Restarting", "Running"), max_size=3) | JSON,
    replicaStatus=JSON,
    restarts=JSON,
    profilings=JSON,
)
COORDINATED = fields(**ROLES, replicas=JSON) | JSON
V2_JOBS = jobs(
    V2,
    fields(**SHARED, **V2_ONLY, coordinated=COORDINATED) | st.none() | st.text(max_size=2),
    V2_STATUS | st.none(),
)


def same(left: object, right: object) -> bool:
    """Whether two values are the same JSON; 1, 1.0 and true are not."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@pytest.mark.proves(
    "dijob.md#jobs-with-a-coordinator/spec-coordinator-spec-collector-spec",
    "dijob.md#jobs-with-a-coordinator/spec-group-spec-cleanpodpolicy-spec-the-same",
    "dijob.md#spec/group",
)
@given(V1_JOBS, st.sampled_from([OLD, OLDER]))
def test_conversion_from_an_older_version_and_back_has_no_loss(job: Job, version: str) -> None:
    job["apiVersion"] = version
    assert same(convert(convert(job, V2), version), job)


@given(V2_JOBS, st.sampled_from([OLD, OLDER]))
def test_conversion_to_an_older_version_and_back_has_no_loss(job: Job, version: str) -> None:
    before = deepcopy(job)
    old = convert(job, version)
    assert same(convert(old, V2), job)
    # Through the other one too, and the job given is left as it was.
    assert same(convert(convert(old, OLD), V2), job)
    assert same(job, before)


@given(V2_JOBS)
def test_an_annotation_of_a_conversion_survives_another_one(job: Job) -> None:
    job["metadata"] = convert(job, OLD)["metadata"]
    assert same(convert(convert(job, OLD), V2), job)


@pytest.mark.proves(
    "dijob.md#jobs-with-a-coordinator/spec-group-spec-cleanpodpolicy-spec-spec-coordinated-replicas"
)
@given(V2_JOBS)
def test_the_older_versions_show_only_fields_they_have(job: Job) -> None:
    old = convert(job, OLD)
    if isinstance(job.get("spec"), dict):
        assert old["spec"].keys() <= {*SHARED, *ROLES}
    if isinstance(job.get("status"), dict):
        assert old["status"].keys() <= {"phase", "conditions", "replicaStatus"}


@given(JSON | V1_JOBS | V2_JOBS, st.sampled_from(VERSIONS) | st.text(max_size=3))
def test_an_object_that_is_no_job_is_refused_with_a_reason(job: Any, version: str) -> None:
    try:
        converted = convert(job, version)
    except ConversionFailed as error:
        said = str(error).encode()
    else:
        said = converted["apiVersion"].encode()
    assert said


@pytest.mark.parametrize("text", [*FOREIGN, '{"spec":{}}', '{"annotation":1}'])
def test_a_foreign_text_in_the_annotation_is_kept(text: str) -> None:
    annotated = {"metadata": {"name": "job", "annotations": {KEY: text}}}
    for job in (v2_job() | annotated, v2_job(priority="high") | annotated):
        assert convert(convert(job, OLD), V2) == job
    if text in FOREIGN:
        old = {**convert(v2_job(), OLD), **annotated}
        assert convert(convert(old, V2), OLD) == old


def v2_job(**spec: Any) -> Job:
    return {
        "apiVersion": V2,
        "kind": names.KIND,
        "metadata": {"name": "job"},
        "spec": {"coordinated": {"coordinator": {"template": template()}}, **spec},
    }


NO_ROLES: list[Any] = [{}, {"replicas": []}, None, "text"]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        *(
            {"coordinated": coordinated, **more}
            for coordinated in NO_ROLES
            for more in ({}, {"priority": "high"})
        ),
    ],
)
def test_a_job_without_roles_is_converted_without_loss(spec: Job) -> None:
    job = {**v2_job(), "spec": spec}
    assert convert(convert(job, OLD), V2) == job


def test_between_the_older_versions_only_the_version_changes() -> None:
    job = convert(v2_job(priority="high"), OLDER)
    assert convert(job, OLD) == {**job, "apiVersion": OLD}


def test_a_usual_job_of_an_older_version_needs_no_annotation() -> None:
    role = {"template": template()}
    old = {
        "apiVersion": OLDER,
        "kind": names.KIND,
        "metadata": {"name": "job"},
        "spec": {"group": "g", "priorityClassName": "", "coordinator": role, "learner": role},
    }
    new = convert(old, V2)
    assert new["spec"] == {
        "group": "g",
        "coordinated": {"priorityClassName": "", "coordinator": role, "learner": role},
    }
    assert convert(new, OLDER) == old


@pytest.mark.proves("dijob.md#jobs-with-a-coordinator/status-phase-created")
@pytest.mark.parametrize(
    ("phase", "shown"),
    [
        *((phase, "Created") for phase in ("Pending", "Starting", "Restarting", "Rescheduling")),
        *((phase, phase) for phase in ("Running", "Succeeded", "Failed", "Unknown")),
    ],
)
def test_the_phase_is_one_of_the_older_version(phase: str, shown: str) -> None:
    job = v2_job() | {"status": {"phase": phase, "conditions": [{"type": "Starting"}]}}
    old = convert(job, OLD)
    assert old["status"] == {"phase": shown, "conditions": [{"type": "Created"}]}
    # The phase that another client has written is kept.
    assert convert({**old, "status": {"phase": "Failed"}}, V2)["status"]["phase"] == "Failed"


def test_a_changed_field_overrides_the_annotation() -> None:
    job = v2_job(priority="high", group="a")
    job["spec"]["coordinated"]["replicas"] = [{"name": "x", "role": "collector"}]
    old = convert(job, OLD)
    del old["spec"]["group"]
    old["spec"]["cleanPodPolicy"] = "All"
    spoilt = json.loads(old["metadata"]["annotations"][KEY])
    spoilt["spec"] |= {"group": "b", "cleanPodPolicy": "None"}
    spoilt["coordinated"]["coordinator"] = {}
    old["metadata"]["annotations"][KEY] = json.dumps(spoilt)
    assert convert(old, V2)["spec"] == {
        "cleanPodPolicy": "All",
        "priority": "high",
        "coordinated": job["spec"]["coordinated"],
    }


def test_a_removed_status_does_not_come_back() -> None:
    old = convert(v2_job() | {"status": {"phase": "Restarting", "restarts": 3}}, OLD)
    del old["status"]
    assert "status" not in convert(old, V2)


def test_an_update_without_the_annotation_keeps_unseen_fields() -> None:
    old = v2_job(priority="high", cleanPodPolicy="None") | {"status": {"restarts": 1}}
    old["spec"]["coordinated"]["replicas"] = [{"name": "x", "role": "collector"}]
    written = v2_job(cleanPodPolicy="All")
    kept = with_unseen(written, old)
    assert kept["spec"] == old["spec"] | {"cleanPodPolicy": "All"}
    assert (kept["status"], kept["metadata"]) == (old["status"], written["metadata"])
    tasks = {**v2_job(tasks=[{"type": "learner"}])}
    del tasks["spec"]["coordinated"]
    empty = {**v2_job(), "spec": {}}
    assert with_unseen(empty, tasks)["spec"] == tasks["spec"]


def test_many_replicas_fit_in_the_annotation() -> None:
    job = v2_job(priority="normal")
    job["spec"]["coordinated"]["replicas"] = [
        {
            "name": f"{'j' * 45}-collector-{number:05}",
            "role": "collector",
            "resources": {"cpu": "1500m", "memory": "2Gi"},
            "generation": number,
        }
        for number in range(MAX_REPLICAS)
    ]
    old = convert(job, OLD)
    text = old["metadata"]["annotations"][KEY]
    assert text.startswith(COMPRESSED)
    assert len(text) < LONGEST / 4
    assert convert(old, V2) == job


def digits(size: int) -> str:
    """A text that cannot be compressed to less than half."""
    return "".join(str(pow(7, n, 1_000_003)) for n in range(size // 6))[:size]


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


UNFIT = {
    "too large": v2_job(tasks=[{"name": digits(600_000)}]),
    "as large as the API server takes": v2_job(tasks=[{"name": digits(1_500_000)}]),
    "too deep": v2_job(tasks=nested(20_000)),
    "deeper than what is read": v2_job(tasks=nested(200)),
    "too large beside other annotations": v2_job(tasks=[{"name": digits(150_000)}])
    | {"metadata": {"name": "job", "annotations": {"a": "x" * 200_000}}},
    "beside annotations that leave no place": v2_job(tasks=[{"name": "a"}])
    | {"metadata": {"name": "job", "annotations": {"a": "x" * 262_140}}},
}


@pytest.mark.proves("dijob.md#the-definition-itself")
@pytest.mark.parametrize("job", UNFIT.values(), ids=UNFIT)
def test_a_job_that_does_not_fit_is_shown_in_part_and_cannot_be_written(job: Job) -> None:
    for version in VERSIONS:
        if version == V2:
            continue
        shown = convert(job, version)
        annotations = shown["metadata"]["annotations"]
        assert annotations[KEY].startswith(TOO_LARGE)
        assert V2 in annotations[KEY]
        assert sum(len(key) + len(text) for key, text in annotations.items()) <= MOST_ANNOTATIONS
        assert shown["metadata"]["name"] == "job"
        with pytest.raises(ConversionFailed, match="too large for this version"):
            convert(shown, V2)


def test_a_text_that_unpacks_to_a_huge_one_is_ignored() -> None:
    assert unpack(pack({"spec": {"a": "b" * (LARGEST - 1000)}})) is not None
    # Cut at the limit it would still be JSON.
    huge = zlib.compress(b'{"spec":{}}' + b" " * LARGEST)
    assert unpack(COMPRESSED + base64.b64encode(huge).decode()) is None
    assert unpack("[" * 100_000) is None


NO_JSON_OF_OURS = {
    "no number": '{"spec":{"odd":NaN}}',
    "a number without end": '{"spec":{"odd":1e999}}',
    "a key twice": '{"spec":{},"spec":{"odd":1}}',
    "deeper than what is written": '{"spec":{"odd":' + "[" * 200 + "]" * 200 + "}}",
}


@pytest.mark.parametrize("text", NO_JSON_OF_OURS.values(), ids=NO_JSON_OF_OURS)
def test_a_text_that_is_never_written_is_a_foreign_one(text: str) -> None:
    """Read as ours, it would be part of a job that no API server can read."""
    job = {**convert(v2_job(), OLD), "metadata": {"name": "job", "annotations": {KEY: text}}}
    new = convert(job, V2)
    assert new["metadata"] == job["metadata"]
    assert "odd" not in new["spec"]


BROKEN = {
    "metadata that is text": v2_job() | {"metadata": "x"},
    "annotations that are a list": v2_job() | {"metadata": {"annotations": [1]}},
    "another kind": v2_job() | {"kind": "Pod"},
    "another version": v2_job() | {"apiVersion": "v1"},
}


@pytest.mark.parametrize("job", BROKEN.values(), ids=BROKEN)
def test_a_broken_job_is_not_converted(job: Job) -> None:
    with pytest.raises(ConversionFailed):
        convert(job, OLD)
