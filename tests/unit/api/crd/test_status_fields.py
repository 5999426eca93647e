"""Every status field that a service writes is in the CRD, and every field there is written."""

from __future__ import annotations

from typing import Any, Final

import pytest

from di_operator.lifecycle.observed.status import OWNED_FIELDS
from tests.schemas import dropped, properties, status_schema, texts_of

JOBS: Final = "dijobs-crd.yaml"
OF_SERVER: Final = {"profilings", "progress", "shards"}
OF_NOTIFIER: Final = {"notified"}
WRITERS: Final = ("services/operator/src", "services/server/src", "libraries/api/src/di_api")
CRDS: Final = (JOBS, "dijobtasks-crd.yaml", "disweeps-crd.yaml")


def test_the_crd_has_every_status_field_that_a_service_writes() -> None:
    written = {*OWNED_FIELDS} | OF_SERVER | OF_NOTIFIER
    assert set(status_schema(JOBS)["properties"]) == written


@pytest.mark.parametrize("crd", CRDS)
def test_every_status_field_of_a_crd_is_named_by_a_writer(crd: str) -> None:
    texts = texts_of(*WRITERS)
    assert [path for path, name in properties(status_schema(crd)) if name not in texts] == []


def test_managed_fields_never_list_what_is_inside_an_object_of_the_status() -> None:
    fields = status_schema(JOBS)["properties"]
    conditions = fields["conditions"]
    objects = [*(each for each in fields.values() if each["type"] == "object"), conditions["items"]]
    assert {each.get("x-kubernetes-map-type") for each in objects} == {"atomic"}
    # Two controllers can apply conditions of two types.
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    lists = [each for each in fields.values() if each["type"] == "array" and each != conditions]
    assert {each.get("x-kubernetes-list-type") for each in lists} == {"atomic"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Running", "profilings": {"any": {"thing": 1}}}, []),
        ({"expectedStart": {"promised": "2026-01-01T00:00:00Z", "by": 1}}, ["expectedStart.by"]),
        ({"taskStatus": {"learner": {"Running": 1}}, "unknown": {}}, ["unknown"]),
        ({"conditions": [{"type": "Running", "since": "now"}]}, ["conditions[].since"]),
    ],
    ids=["free form", "nested", "map", "list"],
)
def test_fields_that_the_crd_lacks_are_found(status: dict[str, Any], expected: list[str]) -> None:
    assert dropped(status_schema(JOBS), status) == [f"status.{each}" for each in expected]
