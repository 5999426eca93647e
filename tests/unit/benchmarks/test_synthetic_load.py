"""Copies of a finished job."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp

from tools.benchmarks.synthetic_load import SyntheticLoad

JOB_UID = "aaaaaaaa-0000-4000-8000-aaaaaaaaaaaa"


def body(kind: str, name: str, uid: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "rl", "uid": uid}
    if kind == "Pod":
        metadata["ownerReferences"] = [{"uid": JOB_UID, "name": "sample"}]
    return {"kind": kind, "metadata": metadata}


def load(copies: int) -> SyntheticLoad:
    pods = [
        body("Pod", f"sample-work-{number}", f"bbbbbbb{number}-0000-4000-8000-bbbbbbbbbbbb")
        for number in range(2)
    ]
    return SyntheticLoad(body("DIJob", "sample", JOB_UID), pods, copies)


def copies_of(plural: str, copies: int, start: int = 0) -> list[dict[str, Any]]:
    return [json.loads(text) for text in load(copies).objects(plural, start)]


def test_each_copy_has_its_own_name_and_uid() -> None:
    for plural, count in (("dijobs", 3), ("pods", 6)):
        found = copies_of(plural, 3)
        for key in ("name", "uid"):
            assert len({one["metadata"][key] for one in found}) == len(found) == count


def test_a_copied_pod_belongs_to_the_copied_job() -> None:
    jobs = {one["metadata"]["uid"]: one["metadata"]["name"] for one in copies_of("dijobs", 3)}
    for pod in copies_of("pods", 3):
        owner = pod["metadata"]["ownerReferences"][0]
        assert jobs[owner["uid"]] == owner["name"]
        assert pod["metadata"]["name"].startswith(owner["name"])


def test_where_metadata_is_asked_for_there_is_nothing_else() -> None:
    whole = copies_of("pods", 3)
    heads = [json.loads(text) for text in load(3).objects("pods", is_metadata=True)]
    assert heads == [{"metadata": pod["metadata"]} for pod in whole]


def test_a_page_goes_on_where_the_last_one_ended() -> None:
    assert copies_of("pods", 3, start=3) == copies_of("pods", 3)[3:]
    assert copies_of("pods", 3, start=6) == []


def test_a_list_by_name_shows_no_copy_and_is_none_of_the_polls_that_are_counted() -> None:
    async def main() -> tuple[list[int], int]:
        copies, found = load(3), list[int]()
        async with copies.serve() as url, aiohttp.ClientSession() as http:
            for query in ("fieldSelector=metadata.name%3Dnobody", "limit=500"):
                async with http.get(f"{url}/apis/any/v1/dijobs?{query}") as answer:
                    found.append(len((await answer.json())["items"]))
        return found, copies.lists["dijobs"]

    assert asyncio.run(main()) == ([0, 3], 1)
