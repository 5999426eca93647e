"""The user of a change is noted on the job, and cannot be forged."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.changed_by import changed_by
from di_webhook.admission import mutate, validate
from tests.unit.webhook.reviews import job, patch_of, review

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
    annotations = dict(new["metadata"].get("annotations") or {})
    for each in patch_of(mutate(body, speakers=[SERVER])):
        key = each["path"].removeprefix("/metadata/annotations")
        if key == each["path"]:
            continue
        if key == "":
            annotations = each["value"]
        else:
            annotations[key[1:].replace("~1", "/")] = each["value"]
    return annotations


def test_a_new_job_is_noted_with_its_creator() -> None:
    assert noted(kept(None, generation=None), None) == {NOTE: "1 ann"}
    assert NOTE not in noted(kept(None, generation=None), None, None)


@pytest.mark.parametrize("claimed", ["5 bob", "4 bob", "x", None])
def test_the_user_of_a_change_is_noted_whatever_the_object_claims(claimed: str | None) -> None:
    assert noted(kept(claimed, replicas=3), kept("4 ann"))[NOTE] == "5 ann"
    # Without a change of the spec the note stays.
    assert noted(kept(claimed), kept("4 bob"))[NOTE] == "4 bob"


def test_a_default_that_is_left_out_is_no_change() -> None:
    new = kept("4 bob")
    del new["spec"]["backoffLimit"]
    assert noted(new, kept("4 ann")) == {"mine": "kept", NOTE: "4 ann"}


@pytest.mark.parametrize(
    ("claimed", "note"), [("5 pod x-0", "5 pod x-0"), ("4 ann", f"5 {SERVER}")]
)
def test_the_server_may_note_its_caller(claimed: str, note: str) -> None:
    assert noted(kept(claimed, replicas=3), kept("4 ann"), SERVER)[NOTE] == note


@pytest.mark.parametrize(
    ("annotation", "who"),
    [
        ("4 ann", "ann"),
        ("4 system:serviceaccount:a:b", "system:serviceaccount:a:b"),
        ("4 two words", "two words"),
        *((other, "") for other in ("3 ann", "5 ann", "4", "ann", "", 4, None)),
    ],
)
def test_the_note_counts_for_its_generation_alone(annotation: Any, who: str) -> None:
    assert changed_by({"metadata": {"generation": 4, "annotations": {NOTE: annotation}}}) == who


def denied(new: dict[str, Any], old: dict[str, Any] | None, user: str = "ann") -> bool:
    """Whether validation refuses what mutation has not seen."""
    operation = "CREATE" if old is None else "UPDATE"
    body = review(new, old=old, operation=operation, userInfo={"username": user})
    status = validate(body, speakers=[SERVER]).body["response"].get("status", {})
    assert "message" not in status or NOTE in status["message"]
    return bool(status)


@pytest.mark.proves("security.md#admission")
@pytest.mark.parametrize("claimed", ["5 bob", "4 bob", "9 bob", "x"])
def test_a_note_of_another_user_is_refused_where_mutation_was_skipped(claimed: str) -> None:
    assert denied(kept(claimed, replicas=3), kept("4 ann"))
    assert denied(kept(claimed), kept("4 ann"))
    assert denied(kept(claimed, generation=None), None)


def test_a_note_that_names_its_writer_or_stays_is_let_through() -> None:
    assert not denied(kept("5 ann", replicas=3), kept("4 bob"))
    assert not denied(kept("4 bob", replicas=3), kept("4 bob"))
    assert not denied(kept(None, replicas=3), kept("4 bob"))
    assert not denied(kept("1 ann", generation=None), None)
    assert not denied(kept("5 bob", replicas=3), kept("4 ann"), SERVER)
