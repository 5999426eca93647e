"""Admission of jobs with one base for the templates of all tasks."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from di_local.api.patches import patched
from di_webhook.admission import mutate
from di_webhook.ownership import without_tasks
from tests.unit.api.test_base_template import MERGED, SPEC
from tests.unit.webhook.reviews import job, patch_of, review


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_a_job_with_a_base_is_admitted_as_the_one_written_out(operation: str) -> None:
    with_base, written_out = job(**deepcopy(SPEC)), job(**deepcopy(MERGED))
    old = job(**deepcopy(MERGED)) if operation == "UPDATE" else None
    admitted = [
        patched(each, patch_of(mutate(review(each, old=old, operation=operation))))
        for each in (with_base, written_out)
    ]
    assert "template" not in admitted[0]["spec"]
    assert admitted[0] == admitted[1]


def test_no_manager_owns_the_base() -> None:
    body = job()
    fields: dict[str, Any] = {"f:spec": {"f:template": {}, "f:priority": {}}}
    entry = {"manager": "flux", "operation": "Apply", "fieldsV1": fields}
    body["metadata"]["managedFields"] = [entry]
    assert without_tasks(body) == [{**entry, "fieldsV1": {"f:spec": {"f:priority": {}}}}]
