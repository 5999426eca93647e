"""DIJobs of DI Orchestrator 1.1 in Go become DIJobs with one task."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.names import API_VERSION
from di_api.validation import validate_job
from di_cli.convert.fields import RefusedManifest
from tests.unit.cli.convert.manifests import (
    WORDS,
    Object,
    convert_one,
    lost,
    manifests,
    outcome,
    some,
    template,
)

_POD = {"spec": {"containers": [{"name": "main", "image": "x"}]}}


def dijob(**spec: Any) -> Object:
    top = {"apiVersion": API_VERSION, "kind": "DIJob", "metadata": {"name": "j"}}
    return {**top, "spec": {"template": _POD, **spec}}


@pytest.mark.proves("from-other-operators.md#dijob-of-version-1-1/*")
@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({}, {"replicas": 1}),
        ({"minReplicas": 3}, {"replicas": 3}),
        ({"minReplicas": 3, "maxReplicas": 5}, {"replicas": 3}),
        ({"preemptible": True}, {"replicas": 1, "minReplicas": 1, "maxReplicas": 1}),
        (
            {"preemptible": True, "minReplicas": 2, "maxReplicas": 6},
            {"replicas": 2, "minReplicas": 2, "maxReplicas": 6},
        ),
    ],
)
def test_bounds_of_the_job_are_those_of_its_task(given: Object, sizes: Object) -> None:
    found = convert_one(dijob(**given))
    (task,) = found.job["spec"]["tasks"]
    assert task == {"type": "none", "name": "worker", **sizes, "template": _POD}
    left_out = "maxReplicas" in given and "preemptible" not in given
    assert [each.path for each in found.comments] == ["spec.maxReplicas"] * left_out


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"tasks": []}, "kind"),
        ({"coordinated": {}}, "kind"),
        ({"template": None}, "spec.template"),
        ({"minReplicas": 0}, "spec.minReplicas"),
    ],
)
def test_jobs_of_today_and_jobs_without_a_template_are_refused(spec: Object, place: str) -> None:
    with pytest.raises(RefusedManifest) as refused:
        convert_one(dijob(**spec))
    assert refused.value.place == place
    assert refused.value.remedy


@given(
    manifests(
        "DIJob",
        some(
            {"template": template("di-container", "di-port")},
            {
                **{"group": WORDS, "priority": st.just("high"), "preemptible": st.booleans()},
                **{"minReplicas": st.just(3), "maxReplicas": st.just(9)},
                "cleanPodPolicy": st.sampled_from(["Running", "All", "None"]),
                "engineFields": some({}, {"topology": WORDS, "parallelWorkers": st.just(171)}),
            },
        ),
        API_VERSION,
    )
)
def test_no_field_of_an_earlier_dijob_is_lost(manifest: Object) -> None:
    found = outcome(manifest)
    assert not isinstance(found, str), found
    assert lost(manifest, found) == []
    assert validate_job(found.job) == []
