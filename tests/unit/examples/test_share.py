"""The learners of examples/share: what they learn, how they meet, how the allocator sizes them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from di_share.learner import Learner, Settings
from di_share.meeting import First, Meeting, Other, Place, answering
from di_share.policy import blank, improved, mean_reward, play, share
from di_share.worlds import Worlds

import di_orchestrator as di
from examples.demo.manifests import EXAMPLES
from examples.demo.share import ARRANGEMENTS, BATCH, JOBS, SLOT, Course, draw_all

SETTINGS = Settings(steps=12, batch=8, sample_seconds=0.0)


def test_training_works_with_any_number_of_learners() -> None:
    for size in (1, 4):
        weights, random = blank(), Random(1)
        before = mean_reward([play(weights, 200, random)])
        for _ in range(150):
            weights = improved(
                weights, [play(weights, share(64, size, rank), random) for rank in range(size)]
            )
        assert before < 0.4
        assert mean_reward([play(weights, 400, random)]) > 0.7


def never(_: float) -> bool:
    return False


@pytest.fixture
def meeting() -> Meeting:
    return Meeting()


@pytest.fixture
def url(meeting: Meeting) -> Iterator[str]:
    with di.Hub(answering(meeting), 0) as hub:
        yield f"http://127.0.0.1:{hub.port}"


def other(url: str, generation: int, rank: int, *, is_over: bool = False) -> Other:
    return Other(url, generation, rank, is_over=lambda: is_over, pause=never)


def learner(steps: int = 0, **of_run: Any) -> Learner:
    made = Learner(SETTINGS, di.training(learners=1, nodes=1, **of_run), Random(steps))
    made.step = steps
    return made


def test_all_members_have_the_same_state_after_each_step(meeting: Meeting, url: str) -> None:
    """Who comes later takes over from the furthest, and the first member is the last to leave."""
    members = [learner(), learner(5), learner()]
    members[1].weights = [0.5, *blank()[1:]]
    places: list[Place] = [First(meeting, 3, 3, pause=never), other(url, 3, 1), other(url, 3, 2)]
    with ThreadPoolExecutor() as pool:
        done = [
            pool.submit(each.train, place, rank=rank, size=3)
            for rank, (each, place) in enumerate(zip(members, places, strict=True))
        ]
        for each in done:
            each.result(60)
    assert [each.step for each in members] == [12] * 3
    assert members[0].weights == members[1].weights == members[2].weights != blank()
    assert {each.run.learners for each in members} == {3}


def test_a_member_ends_when_the_first_has_gone() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        other(f"http://127.0.0.1:{taken.getsockname()[1]}", 1, 1).leave(4)


def test_a_member_waits_for_a_world_that_includes_it() -> None:
    told: list[int] = []
    worlds = Worlds(told.append)
    assert worlds.is_over(1)
    followed = [
        di.World(generation=generation, is_formed=True, members=members, master_address="x")
        for generation, members in ((1, (0, 1)), (2, (0,)))
    ]
    worlds.follow(followed[:1])
    assert worlds.next(1, 0, lambda: False) == followed[0]
    assert not worlds.is_over(1)
    worlds.follow(followed[1:])
    assert worlds.is_over(1)
    assert told == [1, 2]
    assert worlds.next(0, 1, lambda: False) == followed[1]
    assert worlds.next(1, 1, lambda: True) is None


def looked_at(name: str, seconds: float, **status: Any) -> tuple[dict[str, Any], float]:
    return {"metadata": {"name": name}, "status": status}, seconds


def test_the_record_of_two_jobs_is_described_and_drawn(tmp_path: Path) -> None:
    course = Course({})
    for second in range(31):
        said = {"step": 5 * second, "learnerWaitFrac": 0.25}
        size = 4 if second < 9 else 2
        place = {"learner": ["n"] * size}
        early = {"readyReplicas": size, "placement": place, "profilings": said}
        course.add(*looked_at("early", second, **early))
        assert not course.is_over
        course.add(*looked_at("late", second, **({} if second < 20 else {"readyReplicas": 2})))
    for name in ("early", "late"):
        course.add(
            *looked_at(name, 40, readyReplicas=0, completionTimestamp="2026-01-01T00:00:00Z")
        )
    assert course.is_over
    assert course.ends() == {"early": 40, "late": 40}
    assert course.resized() == {"early": 1, "late": 0}
    assert course.rates("early")[20] == 5 * BATCH
    assert [course.looks["late"][second].waiting for second in (0, 25, 31)] == [1.0, 0.0, 0.0]
    assert course.looks["early"][5].waiting == 0.25
    assert list(course.lines()) == [
        "early: ended at 40 s, 40 s after it was made; resized: 1",
        "late: ended at 40 s, 20 s after it was made; resized: 0",
        "both: 40 s",
    ]
    assert "learners that are ready" in course.draw_terminal()
    course.write(tmp_path, "half")
    assert Course.read(tmp_path / "share-half.json") == course
    course.write(tmp_path, "goodput")
    assert draw_all(tmp_path).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "sizes"), [("goodput", (1, 4)), ("half", (2, 2)), ("whole", (4, 4))]
)
def test_an_arrangement_sets_the_bounds_of_its_jobs(name: str, sizes: tuple[int, int]) -> None:
    manifest = yaml.safe_load(EXAMPLES["share"].read_text())
    made = ARRANGEMENTS[name].job(manifest, JOBS[1])
    (task,) = made["spec"]["tasks"]
    assert (task["minReplicas"], task["maxReplicas"]) == sizes
    (container,) = task["template"]["spec"]["containers"]
    assert {"name": "STEPS", "value": str(JOBS[1].steps)} in container["env"]
    assert container["resources"]["limits"][SLOT] == "1"
    assert made["metadata"]["name"] == JOBS[1].name
    assert manifest["metadata"]["name"] == "share"
    assert f"operator.allocator.policy={ARRANGEMENTS[name].policy}" in ARRANGEMENTS[name].values()
