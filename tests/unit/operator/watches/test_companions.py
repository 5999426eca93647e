"""Companions at the API server: when they are looked at, and what its answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.companions import CompanionKind
from di_kube.errors import ApiError, Forbidden, Invalid, NotFound, Unavailable
from di_kube.resources import CONFIGMAPS, DIJOBS, Resource
from di_operator.process.controller import Outdated
from tests.unit.operator.reconciling import Bench

Object = dict[str, Any]
CLAIMS = Resource(
    group="", version="v1", plural="persistentvolumeclaims", kind="PersistentVolumeClaim"
)
KINDS = (
    CompanionKind(api_version="v1", kind=CONFIGMAPS.kind, resource=CONFIGMAPS.plural),
    CompanionKind(api_version="v1", kind=CLAIMS.kind, resource=CLAIMS.plural),
)


def companion(resource: Resource, name: str = "$(JOB)-a") -> Object:
    return {"apiVersion": "v1", "kind": resource.kind, "metadata": {"name": name}}


def bench(*companions: Object) -> Bench:
    made = Bench()
    made.companion_kinds = KINDS
    made.submit(companions=list(companions or (companion(CONFIGMAPS), companion(CLAIMS))))
    return made


def calls(bench: Bench) -> dict[str, int]:
    kinds = (CONFIGMAPS.kind, CLAIMS.kind)
    return {f"{verb} {kind}": n for (verb, kind), n in bench.api.calls.items() if kind in kinds}


ONCE = {
    "get ConfigMap": 1,
    "create ConfigMap": 1,
    "get PersistentVolumeClaim": 1,
    "create PersistentVolumeClaim": 1,
}


def test_each_companion_is_read_and_created_once() -> None:
    made = bench()
    made.settle()
    assert calls(made) == ONCE
    assert ("PersistentVolumeClaim", "ns", "a-a") in made.api.objects
    # It is no affair of the watch, nor of the node lists.
    assert ("ConfigMap", "a-a") not in made.known.objects


def test_a_job_without_companions_makes_no_extra_request() -> None:
    plain = Bench()
    plain.companion_kinds = KINDS
    plain.submit()
    plain.settle()
    assert calls(plain) == {}


def test_companions_are_read_again_after_half_a_poll_period() -> None:
    made = bench()
    made.settle()
    del made.api.objects["PersistentVolumeClaim", "ns", "a-a"]
    made.seconds = 29.0
    made.settle()
    assert calls(made) == ONCE
    made.seconds = 30.0
    made.settle()
    assert ("PersistentVolumeClaim", "ns", "a-a") in made.api.objects
    again = dict.fromkeys(ONCE, 2) | {"create ConfigMap": 1}
    assert calls(made) == again
    made.settle()
    assert calls(made) == again


def test_a_companion_whose_create_lost_its_answer_is_used() -> None:
    made = bench(companion(CLAIMS))
    unknown = [True]

    def lose(verb: str, kind: str, name: str) -> ApiError | None:
        if verb == "create" and kind == CLAIMS.kind and unknown.pop():
            owner = made.api.objects["DIJob", "ns", "a"]["metadata"]
            made.api.put(CLAIMS, "ns", _owned(owner["uid"]))
            unknown.append(False)
            return Unavailable(kind=kind)
        return None

    made.api.before = lose
    with pytest.raises(Unavailable):
        made.reconcile()
    made.api.before = lambda verb, kind, name: None
    made.settle()
    assert calls(made)["create PersistentVolumeClaim"] == 1
    assert ("Pod", "ns", "a-work-0") in made.api.objects


def test_a_companion_of_an_earlier_job_is_awaited_until_it_is_gone() -> None:
    made = bench(companion(CLAIMS))

    def meet(verb: str, kind: str, name: str) -> ApiError | None:
        if verb == "create" and kind == CLAIMS.kind:
            made.api.put(CLAIMS, "ns", _owned("uid-earlier"))
        return None

    made.api.before = meet
    made.reconcile()
    assert "of an earlier job to be gone" in made.condition["message"]


def _owned(uid: str) -> Object:
    owner = {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": DIJOBS.kind,
        "name": "a",
        "uid": uid,
        "controller": True,
    }
    return {"metadata": {"name": "a-a", "ownerReferences": [owner]}}


@pytest.mark.proves("events.md#of-its-life/invalidcompanion")
@pytest.mark.parametrize(
    ("error", "verb", "message", "reason"),
    [
        (NotFound, "", "could not find the requested resource", "KindMissing"),
        (Invalid, "create", "spec.accessModes: is required", "InvalidCompanion"),
        (Forbidden, "", "exceeded quota: claims", "QuotaExceeded"),
        (Forbidden, "", "cannot create resource", "CreateForbidden"),
    ],
    ids=["404", "422", "quota", "403"],
)
def test_a_refusal_is_reported_with_the_field_of_the_spec(
    error: type[ApiError], verb: str, message: str, reason: str
) -> None:
    made = bench()
    made.refuse(error, message, verb=verb, kind=CLAIMS.kind)
    made.reconcile()
    found = made.condition
    assert found["reason"].endswith(reason)
    words = f"spec.companions[1], PersistentVolumeClaim (v1) a-a: {message}"
    assert found["message"] == words
    assert made.api.calls["create", "Pod"] == 0
    assert made.events[-1].message == words


def test_a_foreign_object_of_that_name_is_reported_and_not_changed() -> None:
    made = bench()
    stored = made.api.put(CLAIMS, "ns", {"metadata": {"name": "a-a"}})
    made.reconcile()
    assert made.condition["reason"] == "CompanionConflict"
    assert "exists and does not belong to this job" in made.condition["message"]
    assert made.api.objects["PersistentVolumeClaim", "ns", "a-a"] == stored


def test_a_failed_read_is_retried_and_creates_nothing() -> None:
    made = bench()
    made.refuse(Unavailable, verb="get", kind=CLAIMS.kind)
    with pytest.raises(Unavailable):
        made.reconcile()
    assert not [call for call in made.api.calls if call[0] == "create"]


def test_a_companion_deleted_between_two_requests_is_retried() -> None:
    made = bench(companion(CLAIMS))

    def vanish(verb: str, kind: str, name: str) -> ApiError | None:
        if verb == "create" and kind == CLAIMS.kind:
            made.api.put(CLAIMS, "ns", {"metadata": {"name": "a-a"}})
        elif verb == "get" and kind == CLAIMS.kind:
            made.api.objects.pop((CLAIMS.kind, "ns", "a-a"), None)
        return None

    made.api.before = vanish
    with pytest.raises(Outdated):
        made.reconcile()
