"""What jobs may bring along is asked of new jobs, by the kinds of this cluster."""

from __future__ import annotations

import json
from typing import Any

from di_api.companions import CompanionKind
from di_webhook import admission
from tests.unit.webhook.reviews import job, review

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "$(JOB)"}}
CLAIM = CONFIG | {"kind": "PersistentVolumeClaim"}
KINDS = [CompanionKind(api_version="v1", kind="ConfigMap", resource="configmaps")]


def answer(body: bytes, *kinds: CompanionKind) -> dict[str, Any]:
    found = admission.validate(body, kinds).body["response"]
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]  # JSON again


def test_a_new_job_brings_along_what_this_cluster_allows_and_is_told_what_that_is() -> None:
    assert answer(review(job(companions=[CONFIG])), *KINDS)["allowed"]
    refused = answer(review(job(companions=[CONFIG, CLAIM])), *KINDS)
    (cause,) = refused["status"]["details"]["causes"]
    assert cause["field"] == "spec.companions[1].kind"
    assert "allowed: ConfigMap (v1)" in cause["message"]
    assert not answer(review(job(companions=[CONFIG])))["allowed"]


def test_one_of_a_kind_that_nobody_may_have_is_told_of_once() -> None:
    secret = CONFIG | {"kind": "Secret"}
    refused = answer(review(job(companions=[secret])), *KINDS)
    (cause,) = refused["status"]["details"]["causes"]
    assert "no kind that jobs may ever bring along" in cause["message"]


def test_a_job_keeps_what_it_has_when_kinds_are_taken_off_the_list() -> None:
    old = job(companions=[CLAIM])
    assert answer(review(job(companions=[CLAIM], suspend=True), old=old, operation="UPDATE"))[
        "allowed"
    ]
