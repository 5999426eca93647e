"""Which changes of jobs the API server refuses the services."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from di_api.names import ANNOTATION_IDEMPOTENCY, ANNOTATION_SCALED, ANNOTATION_SUSPENDED_BY
from di_kube.resources import DIJOBS
from tests.integration.accounts import OPERATOR, SERVER, Accounts
from tests.integration.admission.policies.objects import OWNED, ROLES, TEMPLATE, WORKING

Object = dict[str, Any]

SCALED = deepcopy(WORKING["spec"]["tasks"])
SCALED[1]["replicas"] = 3
NAMED = [{**SCALED[0], "name": "learner"}, SCALED[1]]
REPLICAS = [{"name": "coordinated-collector-a", "role": "collector"}]
OTHER = {"spec": {"containers": [{"name": "di-container", "image": "other"}]}}


def notes(**annotations: str | None) -> Object:
    return {"metadata": {"annotations": annotations}}


def tasks(*changed: Object) -> Object:
    return {"spec": {"tasks": list(changed)}}


BY_THE_SERVER: dict[str, tuple[Object, bool]] = {
    "replicas": (tasks(*SCALED), True),
    "vacant indexes": (tasks(SCALED[0], {**SCALED[1], "vacant": [1]}), True),
    "replicas, and a name by the mutating webhook": (tasks(*NAMED), True),
    "what it has answered": (notes(**{ANNOTATION_IDEMPOTENCY: "[]"}), True),
    "a template": (tasks({**SCALED[0], "template": OTHER}, SCALED[1]), False),
    "a bound": (tasks(SCALED[0], {**SCALED[1], "minReplicas": 1}), False),
    "a type": (tasks({**SCALED[0], "type": "collector"}, SCALED[1]), False),
    "a name": (tasks(SCALED[0], {**SCALED[1], "name": "other"}), False),
    "one task less": (tasks(SCALED[0]), False),
    "one task more": (tasks(*SCALED, {**SCALED[1], "name": "more"}), False),
    "the order of tasks": (tasks(SCALED[1], SCALED[0]), False),
    "a volume": ({"spec": {"volumes": []}}, False),
    "suspend": ({"spec": {"suspend": True}}, False),
    "a field that was absent": ({"spec": {"ttlSecondsAfterFinished": 0}}, False),
    "a coordinator": ({"spec": {"tasks": None, "coordinated": ROLES}}, False),
    "a label": ({"metadata": {"labels": {"team": "other"}}}, False),
    "an annotation": (notes(note="other"), False),
    "an annotation less": (notes(note=None), False),
    "an annotation more": (notes(other="x"), False),
    "a finalizer": ({"metadata": {"finalizers": ["example.org/x"]}}, False),
    "an owner": ({"metadata": {"ownerReferences": OWNED["ownerReferences"]}}, False),
}
BY_THE_SERVER_IN_COORDINATED: dict[str, tuple[Object, bool]] = {
    "replicas": ({"replicas": REPLICAS}, True),
    "a template": ({"collector": {"template": OTHER}}, False),
    "a field of a template that the CRD does not know": (
        {"collector": {"template": {"metadata": {"labels": {"a": "b"}}}}},
        False,
    ),
    "a role more": ({"learner": {"template": TEMPLATE}}, False),
    "a role less": ({"collector": None}, False),
}


@pytest.mark.proves("security.md#what-an-account-writes/server")
@pytest.mark.parametrize(("change", "taken"), BY_THE_SERVER.values(), ids=BY_THE_SERVER)
def test_the_server_changes_only_replicas_and_what_it_has_answered(
    accounts: Accounts, change: Object, taken: bool
) -> None:
    path = DIJOBS.path(accounts.namespace, "working")
    why = accounts.objection(SERVER, "PATCH", path, change)
    assert (why == "") if taken else _is_refused(why)


BY_THE_OPERATOR: dict[str, tuple[Object, str]] = {
    "replicas and what it took them from": (
        notes(**{ANNOTATION_SCALED: "{}"}) | tasks(SCALED[0], {**SCALED[1], "replicas": 4}),
        "",
    ),
    "a template": (
        tasks({**SCALED[0], "template": OTHER}, SCALED[1]),
        "di-operator may change only replicas and vacant",
    ),
    "a bound": (
        tasks(SCALED[0], {**SCALED[1], "minReplicas": 1}),
        "di-operator may change only replicas and vacant",
    ),
    "what a queue says": (
        notes(**{ANNOTATION_SUSPENDED_BY: "queue"}) | {"spec": {"suspend": True}},
        "",
    ),
    "another field": (
        {"spec": {"ttlSecondsAfterFinished": 5}},
        "di-operator may change only replicas and vacant of spec.tasks[*] and spec.suspend",
    ),
    "a label": (
        {"metadata": {"labels": {"team": "other"}}},
        "di-operator may change only the annotations diengine/scaled and diengine/suspended-by",
    ),
    "what the server has answered": (
        notes(**{ANNOTATION_IDEMPOTENCY: "[1]"}),
        "di-operator may change only the annotations diengine/scaled and diengine/suspended-by",
    ),
}


@pytest.mark.proves("security.md#what-an-account-writes/operator")
@pytest.mark.parametrize(("change", "why"), BY_THE_OPERATOR.values(), ids=BY_THE_OPERATOR)
def test_the_operator_changes_only_replicas_of_a_job(
    accounts: Accounts, change: Object, why: str
) -> None:
    path = DIJOBS.path(accounts.namespace, "working")
    said = accounts.objection(OPERATOR, "PATCH", path, change)
    assert (said == "") if not why else (why in said)


def _is_refused(why: str) -> bool:
    return "di-server may change only" in why


@pytest.mark.proves("security.md#what-an-account-writes/server")
@pytest.mark.parametrize(
    ("change", "taken"),
    BY_THE_SERVER_IN_COORDINATED.values(),
    ids=BY_THE_SERVER_IN_COORDINATED,
)
def test_the_server_changes_only_the_members_of_a_coordinated_job(
    accounts: Accounts, change: Object, taken: bool
) -> None:
    path = DIJOBS.path(accounts.namespace, "coordinated")
    why = accounts.objection(SERVER, "PATCH", path, {"spec": {"coordinated": change}})
    assert (why == "") if taken else _is_refused(why)


@pytest.mark.proves("security.md#what-an-account-writes/server")
@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({"profilings": {"b": 2}}, True),
        ({"profilings": None}, True),
        ({"shards": {"prompts": {"size": 2, "after": 1}}}, True),
        ({"profilings": {"b": 2}, "progress": {"step": 2}}, True),
        ({"phase": "Succeeded"}, False),
        ({"restarts": 0}, False),
        ({"restarts": None}, False),
        ({"profilings": {"b": 2}, "reschedules": 1}, False),
    ],
    ids=json.dumps,
)
def test_the_server_changes_only_what_jobs_report_in_a_status(
    accounts: Accounts, change: Object, taken: bool
) -> None:
    path = DIJOBS.path(accounts.namespace, "working", "status")
    why = accounts.objection(SERVER, "PATCH", path, {"status": change})
    assert (why == "") if taken else ("may change only status.profilings" in why)
