"""The documents of a file and of its Lists are numbered for errors."""

from __future__ import annotations

import pytest

from di_cli.documents import numbered
from di_cli.edits.manifests import ManifestError, jobs_of

LIST = {"kind": "List", "items": [{"kind": "A"}, {"kind": "List", "items": [{"kind": "B"}]}, None]}


def test_a_list_is_replaced_by_its_items_with_numbers_of_their_own() -> None:
    found = [
        (number, each["kind"] if isinstance(each, dict) else each)
        for number, each in numbered([None, LIST, {"kind": "C"}])
    ]
    assert found == [(1, None), (1, "A"), (1, "B"), (3, None), (3, "C")]


@pytest.mark.parametrize(
    ("documents", "number"), [([None, "text"], 2), ([{"kind": "List", "items": [None, 3]}], 2)]
)
def test_an_error_has_the_number_of_the_document(documents: list[object], number: int) -> None:
    with pytest.raises(ManifestError, match=rf"^jobs\.yaml: document {number} is no object$"):
        jobs_of(documents, "jobs.yaml")
