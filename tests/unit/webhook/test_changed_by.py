"""Who changed a spec is noted on the job, and nobody can say it was somebody else."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from di_api.changed_by import changed_by
from di_webhook.admission import mutate
from tests.unit.webhook.reviews import job, review

NOTE = "diengine/changed-by"
SERVER = "system:serviceaccount:di-system:di-server"


def kept(name: str | None, *, generation: int | None = 4, replicas: int = 2) -> dict[str, Any]:
    """A job that the API server has, or (None) is asked to make."""
    body = job(backoffLimit=3, cleanPodPolicy="Running", priority="normal")
    body["spec"]["tasks"][0]["replicas"] = replicas
    if generation is not None:
        body["metadata"]["generation"] = generation
    if name is not None:
        body["metadata"]["annotations"] = {"mine": "kept", NOTE: name}
    return body


def noted(new: dict[str, Any], old: dict[str, Any] | None, user: object = "ann") -> Any:
    """The annotations that the job has afterwards."""
    operation = "CREATE" if old is None else "UPDATE"
    info = {} if user is None else {"username": user}
    body = review(new, old=old, operation=operation, userInfo=info)
    response = mutate(body, speakers=[SERVER]).body["response"]
    assert response["allowed"]
    annotations = dict(new["metadata"].get("annotations") or {})
    for each in json.loads(base64.b64decode(response.get("patch", "W10="))):
        key = each["path"].removeprefix("/metadata/annotations")
        if key == each["path"]:
            continue
        if key == "":
            annotations = each["value"]
        else:
            annotations[key[1:].replace("~1", "/")] = each["value"]
    return annotations


def test_a_new_job_has_the_name_of_who_made_it() -> None:
    assert noted(kept(None, generation=None), None) == {NOTE: "1 ann"}


def test_a_changed_one_that_of_who_changed_it() -> None:
    found = noted(kept("4 bob", replicas=3), kept("4 bob"))
    assert found == {"mine": "kept", NOTE: "5 ann"}


@pytest.mark.parametrize("claimed", ["5 bob", "4 bob", "x", None])
def test_what_the_request_says_of_itself_counts_for_nothing(claimed: str | None) -> None:
    assert noted(kept(claimed, replicas=3), kept("4 ann"))[NOTE] == "5 ann"


@pytest.mark.parametrize("claimed", ["5 bob", "4 bob", None])
def test_without_a_change_of_the_spec_the_note_stays(claimed: str | None) -> None:
    assert noted(kept(claimed), kept("4 ann"))[NOTE] == "4 ann"


def test_defaults_that_are_left_out_are_no_change() -> None:
    new = kept("4 bob")
    del new["spec"]["backoffLimit"]
    assert noted(new, kept("4 ann"))[NOTE] == "4 ann"


def test_the_server_says_who_asked_it() -> None:
    assert noted(kept("5 pod x-0", replicas=3), kept("4 ann"), SERVER)[NOTE] == "5 pod x-0"


def test_without_news_from_it_it_was_the_server_itself() -> None:
    assert noted(kept("4 ann", replicas=3), kept("4 ann"), SERVER)[NOTE] == f"5 {SERVER}"


def test_who_is_nobody_leaves_no_note() -> None:
    assert NOTE not in noted(kept(None, generation=None), None, None)


@pytest.mark.parametrize(
    ("annotation", "who"),
    [
        ("4 ann", "ann"),
        ("4 system:serviceaccount:a:b", "system:serviceaccount:a:b"),
        ("4 two words", "two words"),
        ("3 ann", ""),
        ("5 ann", ""),
        ("4", ""),
        ("ann", ""),
        ("", ""),
        (4, ""),
        (None, ""),
    ],
)
def test_the_note_counts_for_its_generation_alone(annotation: Any, who: str) -> None:
    assert changed_by({"metadata": {"generation": 4, "annotations": {NOTE: annotation}}}) == who
