"""What core/v1 refuses in a pod is refused in a template."""

from __future__ import annotations

import pytest

from di_api.validation import validate_job
from tests.unit.api.jobs import job, task
from tests.unit.api.pod_cases import BAD, MEANINGLESS, ODD, of_case

REFUSED = {**BAD, **MEANINGLESS}
PATH = "spec.tasks[0].template."


@pytest.mark.proves("dijob.md#when-a-job-is-refused")
@pytest.mark.parametrize("name", REFUSED)
def test_a_template_that_no_pod_can_have_is_refused_with_its_path(name: str) -> None:
    errors = validate_job(job({**task(), "template": of_case(REFUSED[name])}))
    assert errors
    assert all(error.path.startswith(PATH) for error in errors), errors


@pytest.mark.parametrize("name", ODD)
def test_an_odd_template_that_a_pod_can_have_is_taken(name: str) -> None:
    assert validate_job(job({**task(), "template": of_case(ODD[name])})) == []
