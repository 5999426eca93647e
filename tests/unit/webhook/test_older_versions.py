"""Requests of the older versions, and conversions between versions."""

from __future__ import annotations

import base64
import json
import zlib
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api import names, strict_json
from di_api.conversion.annotation import COMPRESSED, pack
from di_api.defaults import with_defaults
from di_webhook.admission import mutate, validate
from di_webhook.conversion_review import answer
from di_webhook.review import Answer, Outcome
from tests.unit.api.jobs import template
from tests.unit.api.test_any_json import JSON
from tests.unit.api.test_conversion import digits
from tests.unit.webhook.reviews import UID, patch_of, review

Job = dict[str, Any]
OLDER = {"requestKind": {"group": names.GROUP, "version": "v1alpha1", "kind": names.KIND}}


def coordinated(**spec: Any) -> Job:
    """A job as it comes from the conversion, `spec` on top."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "cartpole", "namespace": "default"},
        "spec": {"coordinated": {"coordinator": {"template": template()}}, **spec},
    }


def denial(found: Answer) -> Job:
    status: Job = found.body["response"]["status"]
    return status


def test_a_bad_clean_up_policy_is_refused_with_the_old_message() -> None:
    status = denial(validate(review(coordinated(cleanPodPolicy="hello"), **OLDER)))
    said = "Invalid CleanPodPolicy hello, expected in [None, Running, All]"
    assert status["message"] == said
    [cause] = status["details"]["causes"]
    assert (cause["field"], cause["message"]) == ("spec.cleanPodPolicy", said)


@pytest.mark.parametrize("value", [1, ["a"], {}, "x" * 1000, "\ud800", True])
def test_the_refusal_of_any_clean_up_policy_can_be_encoded(value: object) -> None:
    found = validate(review(coordinated(cleanPodPolicy=value), **OLDER))
    assert found.outcome is Outcome.DENIED
    assert len(found.message.encode()) < 300


def test_paths_are_those_of_the_version_of_the_request() -> None:
    bad = coordinated(group=1)
    bad["spec"]["coordinated"]["coordinator"]["template"]["spec"]["containers"][0]["imagee"] = "x"
    fields = ("spec.group", "spec.coordinator.template.spec.containers[0].imagee")
    status = denial(validate(review(bad, **OLDER)))
    assert tuple(cause["field"] for cause in status["details"]["causes"]) == fields
    assert all(f"{field}: " in status["message"] for field in fields)
    newest = denial(validate(review(bad)))
    assert newest["details"]["causes"][1]["field"].startswith("spec.coordinated.coordinator")


def test_a_missing_coordinator_is_named_by_its_old_path() -> None:
    bad = coordinated(coordinated={})
    assert denial(validate(review(bad, **OLDER)))["message"] == "spec.coordinator: is required"


@pytest.mark.parametrize(("given", "wanted"), [("ALL", "All"), ("", "Running")])
def test_old_spellings_of_the_clean_up_policy_are_replaced(given: str, wanted: str) -> None:
    patch = patch_of(mutate(review(coordinated(cleanPodPolicy=given), **OLDER)))
    assert {"op": "add", "path": "/spec/cleanPodPolicy", "value": wanted} in patch


def test_an_update_keeps_fields_that_the_version_does_not_have() -> None:
    old = coordinated(priority="high", cleanPodPolicy="All") | {"status": {"restarts": 2}}
    old["spec"]["coordinated"]["replicas"] = [{"name": "a", "role": "collector"}]
    new = coordinated(cleanPodPolicy="None") | {"status": {}}
    patch = patch_of(mutate(review(new, old=old, operation="UPDATE", **OLDER)))
    written = {each["path"]: each["value"] for each in patch}
    assert written["/spec"] == old["spec"] | {"cleanPodPolicy": "None"}
    assert written["/status"] == old["status"]
    # Then the defaults, in what was written.
    assert written["/spec/backoffLimit"] == 3
    assert "/spec/priority" not in written
    # A writer of the newest version means what is written.
    assert "/spec" not in [
        each["path"] for each in patch_of(mutate(review(new, old=old, operation="UPDATE")))
    ]


def test_an_update_that_hides_nothing_writes_neither_spec_nor_status_again() -> None:
    old = coordinated(cleanPodPolicy="All") | {"status": {"phase": "Running"}}
    old["spec"] = with_defaults(old["spec"])
    patch = patch_of(mutate(review(deepcopy(old), old=old, operation="UPDATE", **OLDER)))
    assert not {"/spec", "/status"} & {each["path"] for each in patch}


def conversion(objects: Any, version: Any = f"{names.GROUP}/v1alpha1", **fields: Any) -> bytes:
    request = {"uid": UID, "desiredAPIVersion": version, "objects": objects}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    return json.dumps({**kind, "request": {**request, **fields}}).encode()


def test_every_object_of_a_review_is_converted_in_order() -> None:
    jobs = [coordinated() | {"metadata": {"name": f"job-{n}"}} for n in range(3)]
    found = answer(conversion(jobs))
    response = found.body["response"]
    assert (found.status, found.outcome) == (200, Outcome.CONVERTED)
    assert (found.body["kind"], response["uid"]) == ("ConversionReview", UID)
    assert response["result"] == {"status": "Success"}
    names_of = [each["metadata"]["name"] for each in response["convertedObjects"]]
    assert names_of == ["job-0", "job-1", "job-2"]
    assert {each["apiVersion"] for each in response["convertedObjects"]} == {
        f"{names.GROUP}/v1alpha1"
    }


FAILING = {
    "a foreign object": (
        conversion([coordinated(), {"kind": "Pod", "metadata": {"namespace": "a", "name": "b"}}]),
        "a/b: only a DIJob of",
    ),
    "not an object": (conversion([1]), "an object without a name: a job must be an object"),
    "an unknown version": (conversion([coordinated()], "v9"), "there is no version 'v9'"),
    "no version": (conversion([], 1), "request.desiredAPIVersion must be a string"),
    "no list": (conversion({}), "request.objects must be a list"),
    "a name that cannot be encoded": (conversion([{"metadata": {"name": "\ud800"}}]), "?: only"),
}


@pytest.mark.parametrize(("body", "message"), FAILING.values(), ids=FAILING)
def test_a_review_fails_as_a_whole(body: bytes, message: str) -> None:
    found = answer(body)
    assert (found.status, found.outcome) == (200, Outcome.FAILED)
    result = found.body["response"]["result"]
    assert result["status"] == "Failed"
    assert message in result["message"]
    assert "convertedObjects" not in found.body["response"]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"request": {}}', review(coordinated()), conversion([], uid="")],
    ids=["empty", "list", "no request", "no uid", "another kind of review", "empty uid"],
)
def test_another_body_is_no_conversion_review(body: bytes) -> None:
    found = answer(body)
    assert (found.status, found.outcome) == (400, Outcome.MALFORMED)


SPECS = st.fixed_dictionaries(
    {}, optional={"coordinated": JSON, "tasks": JSON, "cleanPodPolicy": JSON, "group": JSON}
)
JOBS = st.fixed_dictionaries({}, optional={"metadata": JSON, "spec": SPECS | JSON, "status": JSON})


@given(JOBS, JOBS)
def test_any_change_by_an_older_version_is_answered(old: Job, new: Job) -> None:
    body = review(new, old=old, operation="UPDATE", **OLDER)
    for decide in (mutate, validate):
        found = decide(body)
        assert found.status == 200
        assert json.dumps(found.body).encode()
        assert found.message.encode() or found.outcome is Outcome.ALLOWED


@given(st.lists(JOBS | JSON, max_size=3) | JSON, JSON)
def test_any_objects_are_converted_or_the_review_fails(objects: Any, version: Any) -> None:
    known = f"{names.GROUP}/v1alpha2"
    typed = [
        {**each, "apiVersion": names.API_VERSION, "kind": names.KIND}
        if isinstance(each, dict)
        else each
        for each in (objects if isinstance(objects, list) else [])
    ]
    for found in (answer(conversion(objects, version)), answer(conversion(typed, known))):
        assert found.outcome in (Outcome.CONVERTED, Outcome.FAILED)
        assert json.dumps(found.body).encode()


def test_one_job_that_does_not_fit_does_not_fail_the_list() -> None:
    small = {**coordinated(), "metadata": {"name": "small"}}
    large = {**coordinated(tasks=[{"name": digits(600_000)}]), "metadata": {"name": "large"}}
    found = answer(conversion([small, large, small], f"{names.GROUP}/v1alpha1"))
    assert found.outcome is Outcome.CONVERTED
    names_of = [each["metadata"]["name"] for each in found.body["response"]["convertedObjects"]]
    assert names_of == ["small", "large", "small"]


@pytest.mark.parametrize("plain", ["[" + "{}," * 100_000 + "{}]", '{"spec":[' + "0," * 300_000])
def test_annotated_jobs_that_expand_fail_no_list_of_an_older_version(
    plain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any user can annotate hundreds of jobs, and labels and annotations are not reviewed."""
    read = 0
    loads = strict_json.loads

    def counted(text: bytes, **options: Any) -> Any:
        nonlocal read
        read += len(text)
        return loads(text, **options)

    monkeypatch.setattr(strict_json, "loads", counted)
    text = COMPRESSED + base64.b64encode(zlib.compress(plain.encode())).decode()
    annotated = {"name": "a", "annotations": {names.ANNOTATION_CONVERSION: text}}
    body = conversion([{**coordinated(), "metadata": annotated}] * 50, f"{names.GROUP}/v1alpha1")
    assert answer(body).outcome is Outcome.CONVERTED
    assert read == len(body)


@pytest.mark.proves("security.md#what-a-review-may-cost/4-mib")
def test_annotations_that_expand_to_many_values_fail_the_review() -> None:
    text = COMPRESSED + base64.b64encode(zlib.compress(b"[" + b"{}," * 100_000)).decode()
    bomb = {
        "apiVersion": f"{names.GROUP}/v1alpha1",
        "kind": names.KIND,
        "metadata": {"name": "bomb", "annotations": {names.ANNOTATION_CONVERSION: text}},
        "spec": {},
    }
    assert answer(conversion([bomb], names.API_VERSION)).outcome is Outcome.CONVERTED
    found = answer(conversion([bomb] * 5, names.API_VERSION))
    assert found.outcome is Outcome.FAILED
    assert "unpack to more than" in found.message


@pytest.mark.proves("security.md#what-a-review-may-cost/8-mib")
def test_annotations_that_grow_a_thousandfold_fail_the_review() -> None:
    text = pack({"spec": {"a": "b" * 2_000_000}})
    bomb = {
        "apiVersion": f"{names.GROUP}/v1alpha1",
        "kind": names.KIND,
        "metadata": {"name": "bomb", "annotations": {names.ANNOTATION_CONVERSION: text}},
        "spec": {},
    }
    found = answer(conversion([bomb] * 100, names.API_VERSION))
    assert found.outcome is Outcome.FAILED
    assert "list fewer" in found.message
