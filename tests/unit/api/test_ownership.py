"""Which job controls an object."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from di_api.names import API_VERSION, KIND
from di_api.ownership import controller_uid, is_controlled_by, is_of_earlier_job
from tests.unit.api.test_any_json import JSON


def owned_by(**changes: Any) -> dict[str, Any]:
    reference = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": "x",
        "uid": "u",
        "controller": True,
    } | changes
    return {"metadata": {"name": "x-0", "ownerReferences": [reference]}}


def test_the_controller_of_the_jobs_uid_owns_an_object() -> None:
    assert is_controlled_by(owned_by(), "u")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"uid": "another"}, id="another UID"),
        pytest.param({"kind": "ConfigMap", "apiVersion": "v1"}, id="another kind"),
        pytest.param({"apiVersion": "example.org/v2alpha1"}, id="the kind of another group"),
        pytest.param({"controller": False}, id="an owner that does not control it"),
        pytest.param({"controller": "true"}, id="a text in place of true"),
    ],
)
def test_other_owners_do_not_control_an_object(changes: dict[str, Any]) -> None:
    assert not is_controlled_by(owned_by(**changes), "u")


def test_a_job_of_an_older_version_controls_an_object() -> None:
    assert is_controlled_by(owned_by(apiVersion="diengine.opendilab.org/v1alpha1"), "u")


def test_an_earlier_job_is_one_of_the_same_name_and_another_uid() -> None:
    assert is_of_earlier_job(owned_by(uid="old"), name="x", uid="u")
    assert not is_of_earlier_job(owned_by(), name="x", uid="u")
    assert not is_of_earlier_job(owned_by(uid="old", name="y"), name="x", uid="u")
    assert not is_of_earlier_job(owned_by(uid="old", kind="ConfigMap"), name="x", uid="u")


@given(JSON)
def test_unreadable_owners_control_no_object(references: object) -> None:
    found = {"metadata": {"ownerReferences": references}}
    assert controller_uid(found) is None or isinstance(controller_uid(found), str)
