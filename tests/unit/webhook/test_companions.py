"""The companions of new jobs are of the kinds that this cluster allows."""

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


def test_a_new_job_may_have_the_kinds_that_this_cluster_allows() -> None:
    assert answer(review(job(companions=[CONFIG])), *KINDS)["allowed"]
    refused = answer(review(job(companions=[CONFIG, CLAIM])), *KINDS)
    (cause,) = refused["status"]["details"]["causes"]
    assert cause["field"] == "spec.companions[1].kind"
    assert "allowed: ConfigMap (v1)" in cause["message"]
    assert not answer(review(job(companions=[CONFIG])))["allowed"]


def test_a_kind_that_is_never_allowed_is_one_error() -> None:
    secret = CONFIG | {"kind": "Secret"}
    refused = answer(review(job(companions=[secret])), *KINDS)
    (cause,) = refused["status"]["details"]["causes"]
    assert "no kind that jobs may ever bring along" in cause["message"]


def test_an_old_job_keeps_companions_that_are_no_longer_allowed() -> None:
    old = job(companions=[CLAIM])
    assert answer(review(job(companions=[CLAIM], suspend=True), old=old, operation="UPDATE"))[
        "allowed"
    ]
