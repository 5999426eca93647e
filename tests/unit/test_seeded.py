"""The seeded failures of the e2e tests: thirty jobs that are admitted."""

from __future__ import annotations

import pytest

from di_api.conversion.versions import convert
from di_api.defaults import with_defaults
from di_api.names import API_VERSION
from di_api.validation import validate_job
from tests.e2e.seeded import SEEDS, WRONG_NAME


def test_there_are_thirty_seeded_failures() -> None:
    assert len(SEEDS) >= 30
    assert WRONG_NAME not in SEEDS


@pytest.mark.parametrize("name", SEEDS)
def test_a_seeded_job_is_admitted(name: str) -> None:
    job = convert(SEEDS[name].manifest(name, namespace="rl", image="example/python"), API_VERSION)
    filled = {**job, "spec": with_defaults(job["spec"])}
    assert [str(error) for error in validate_job(filled)] == []
