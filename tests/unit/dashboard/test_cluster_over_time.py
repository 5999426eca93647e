"""The cluster over time, its queues, and what is expected of what waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from di_cli.views.allocation import Node
from di_dashboard.forecast.outlook import SECONDS, Outlook, Outlooks
from di_dashboard.views.heat import MOST_MOVES, Heat, heat_map, moved, stays_of, timeline_of
from di_dashboard.views.queues import queues
from tests.fakes.api_server import StandIn
from tests.fakes.history import Service, answering
from tests.unit.cli.conftest import JOBS, PODS, ends, job
from tests.unit.dashboard.conftest import Page
from tests.waiting import wait_until

Object = dict[str, Any]


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01T{clock}:00Z")


def stay(job: str, rank: int, where: str, since: str, until: str = "", **more: Any) -> Object:
    found = {
        **{"namespace": "rl", "name": job, "job": f"uid-{job}", "task": "learner", "rank": rank},
        **{"pod": f"{job}-learner-{rank}", "node": where, "gpus": 4},
        **{"since": f"2026-03-01T{since}:00Z", **more},
    }
    return found | ({"until": f"2026-03-01T{until}:00Z"} if until else {})


def drawn(*placements: Object, totals: Mapping[str, int] | None = None, **more: Any) -> Heat:
    arguments: dict[str, Any] = {
        **{"since": at("10:00"), "until": at("12:00"), "at": at("11:30")},
        "timelines": {},
    }
    return heat_map(stays_of([*placements]), totals=totals or {}, **{**arguments, **more})


# ---------------------------------------------------------------- the map
@pytest.mark.proves("dashboard.md#the-cluster")
def test_a_node_is_divided_by_job_and_time() -> None:
    found = drawn(
        stay("a", 0, "gpu-1", "10:00", "11:00"), stay("b", 0, "gpu-1", "10:30"), totals={"gpu-1": 8}
    )
    (line,) = found.lines
    shown = [(p.key, p.left, p.width, p.top, p.height) for p in line.pieces]
    assert shown == [
        ("rl/a", 0.0, 50.0, 0.0, 50.0),
        ("rl/b", 25.0, 25.0, 50.0, 50.0),
        ("rl/b", 50.0, 50.0, 0.0, 50.0),
    ]
    assert line.then == [("rl/b", 4)]
    assert found.unit == "GPUs"
    assert line.label.endswith("rl/b: 4")


def test_without_gpus_pods_are_counted() -> None:
    found = drawn(stay("a", 0, "n", "09:00", gpus=0), stay("a", 1, "n", "09:00", gpus=0))
    ((line,), unit) = (found.lines, found.unit)
    assert (line.then, unit) == ([("rl/a", 2)], "pods")


def test_placements_of_other_times_are_not_on_the_map() -> None:
    found = drawn(
        stay("a", 0, "n", "08:00", "10:00"), stay("b", 0, "n", "12:00"), {"node": "n"}, {"since": 3}
    )
    assert (found.lines, found.moves) == ([], [])


def test_a_move_shows_its_source_and_cause() -> None:
    told = {
        "timeline": [
            {"kind": "failure", "at": "2026-03-01T10:29:50Z", "pod": "a-learner-0", "exitCode": 1}
        ]
    }
    found = drawn(
        stay("a", 0, "gpu-1", "10:00", "10:30", outcome="Failed", exitCode=1),
        stay("a", 0, "gpu-2", "10:30"),
        stay("b", 0, "gpu-2", "10:00", "10:20", outcome="Deleted"),
        stay("b", 0, "gpu-1", "10:25"),
        timelines={"uid-a": timeline_of(told)},
    )
    assert [each.text.partition(" ")[2] for each in found.moves] == [
        "a-learner-0 moved from gpu-1 to gpu-2. Why: a-learner-0 failed (exit code 1)",
        "b-learner-0 moved from gpu-2 to gpu-1. Why: its pod ended there (Deleted).",
    ]
    assert found.moves[0].left == 25.0


def test_a_late_or_unmoved_rank_is_no_move() -> None:
    stays = stays_of(
        [
            stay("a", 0, "gpu-1", "10:00", "10:10"),
            stay("a", 0, "gpu-2", "11:00"),
            stay("b", 0, "gpu-1", "10:00", "10:10"),
            stay("b", 0, "gpu-1", "10:10"),
            stay("c", 0, "gpu-1", "10:00", "10:10"),
            stay("c", 1, "gpu-2", "10:10"),
        ]
    )
    assert moved(stays) == []


def test_the_newest_moves_are_shown_and_the_others_counted() -> None:
    stays = [
        stay("a", rank, where, since, until)
        for rank in range(MOST_MOVES + 3)
        for where, since, until in (("gpu-1", "10:00", "10:30"), ("gpu-2", "10:30", "11:00"))
    ]
    found = drawn(*stays)
    assert (len(found.moves), found.more_moves) == (MOST_MOVES, 3)


# ---------------------------------------------------------------- queues
def held(**amounts: int) -> list[Node]:
    jobs = {f"{name}/job": Decimal(amount) for name, amount in amounts.items()}
    return [Node(name="gpu-1", total=Decimal(8), jobs=jobs)]


def test_a_queue_above_its_share_has_borrowed() -> None:
    found = queues(held(rl=7, lab=1), {"lab": 2}, {"shares": {"rl": 1, "lab": 3, "gone": 4}})
    rows = [(q.name, q.held, q.due, q.borrowed, q.waiting, [*q.cells]) for q in found.rows]
    assert rows == [
        ("gone", "0", "0", "", 0, ["4"]),
        ("lab", "1", "6", "", 2, ["3"]),
        ("rl", "7", "2", "5", 0, ["1"]),
    ]


def test_arguments_of_queues_are_columns() -> None:
    arguments = {
        "queues": {
            "rl": {"weight": 3, "guarantee": {"nvidia.com/gpu": 4}},
            "lab": {"quota": {"nvidia.com/gpu": 8}},
        }
    }
    found = queues(held(rl=4), {}, arguments)
    assert found.columns == ["weight", "guarantee", "quota"]
    assert [[*q.cells] for q in found.rows] == [
        ["", "", "8 nvidia.com/gpu"],
        ["3", "4 nvidia.com/gpu", ""],
    ]


@pytest.mark.parametrize(
    "arguments", [{}, {"shares": 3}, {"shares": {"rl": "x"}}, {"queues": {"rl": 1}}]
)
def test_without_weights_nothing_is_due(arguments: Object) -> None:
    (row,) = queues(held(rl=4), {}, arguments).rows
    assert row.held == "4"


# ---------------------------------------------------------------- what is expected
def test_a_forecast_is_made_in_the_background_and_published_on_change() -> None:
    clock, made, told = [0.0], threading.Event(), []

    def make() -> Outlook:
        made.wait(60)
        return Outlook(policy="fit")

    outlooks = Outlooks(make, tell=lambda: told.append(1), clock=lambda: clock[0])
    assert outlooks.latest() == Outlook()
    assert outlooks.latest() == Outlook(), "it is not begun twice"
    made.set()
    wait_until(lambda: told == [1])
    assert outlooks.latest().policy == "fit"
    clock[0] = SECONDS + 1
    outlooks.latest()
    wait_until(lambda: not outlooks._is_underway)
    assert told == [1], "nothing is new"


def test_a_failed_forecast_is_reported_on_the_page() -> None:
    def make() -> Outlook:
        raise KeyError("x")

    outlooks = Outlooks(make, tell=lambda: None, clock=lambda: 0.0)
    outlooks.latest()
    wait_until(lambda: outlooks.latest().notes)
    assert "cannot be told" in outlooks.latest().notes[0]


# ---------------------------------------------------------------- the page
@pytest.fixture
def service() -> Iterator[Service]:
    with answering() as found:
        found.answers["/v1/placements"] = {
            "placements": [
                stay("grpo-7b", 0, "gpu-9", "08:00", "09:00", outcome="Deleted"),
                stay("grpo-7b", 0, "gpu-1", "09:00"),
            ]
        }
        found.answers["/v1/jobs/rl/grpo-7b"] = {
            "timeline": [
                {
                    **{"kind": "scaling", "at": "2026-03-01T08:59:50Z", "task": "learner"},
                    **{"before": 2, "after": 1, "who": "ann"},
                }
            ]
        }
        yield found


@pytest.mark.proves("dashboard.md#the-cluster")
def test_the_map_reads_without_scripts(asking: Page, service: Service) -> None:
    text = asking.get("/cluster").text
    assert "moved from gpu-9 to gpu-1" in text
    assert "learner 2 -&gt; 1, asked by ann" in text
    then = int(datetime(2026, 3, 1, 8, 30, tzinfo=UTC).timestamp())
    text = asking.get(f"/cluster?at={then}").text
    assert "<li><b>gpu-9</b> rl/grpo-7b 4 GPUs</li>" in text
    assert f'value="{then}"' in text
    asked = [path for path, _ in service.asked if "placements" in path]
    assert asked[0].endswith("since=2026-03-01T06%3A00%3A15Z&until=2026-03-01T12%3A00%3A15Z")


@pytest.mark.parametrize("query", ["at=x", "at=99999999999999", "hours=5", "at=0"])
def test_a_bad_time_still_shows_the_map(asking: Page, query: str) -> None:
    assert asking.get(f"/cluster?{query}").status_code == 200


def test_the_cluster_page_works_without_its_history(asking: Page, service: Service) -> None:
    service.status = 503
    text = asking.get("/cluster").text
    assert "The history of rl is away" in text
    assert "Who holds what" in text


def test_the_cluster_page_names_namespaces_without_permission(
    asking: Page, service: Service
) -> None:
    service.status = 403
    text = asking.get("/cluster").text
    assert "You are not allowed to read the history of rl." in text
    assert "is away" not in text


def learner(name: str, phase: str, **status: Any) -> Object:
    """A preemptible job of one learner of eight GPUs."""
    body = job(name, phase, **status)
    task = body["spec"]["tasks"][0]
    task["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "8"
    body["spec"] |= {"preemptible": True, "tasks": [task]}
    return body


def test_a_pending_job_has_its_expected_start(page: Page, world: StandIn) -> None:
    place = "/api/v1/namespaces/di-system/configmaps/di-operator"
    data = {"DI_OPERATOR_POLICY": "fit", "DI_OPERATOR_POLICY_ARGUMENTS": '{"shares": {"rl": 2}}'}
    world.put(place, {"metadata": {"name": "di-operator"}, "data": data})
    for path in [each for each in world.objects if each.startswith((JOBS, PODS))]:
        world.remove(path)
    runs = {"placement": {"learner": ["gpu-1"]}, "startTime": "2026-03-01T11:00:00Z"}
    world.put(f"{JOBS}/runs", learner("runs", "Running", expectedCompletion=ends(1500), **runs))
    world.put(f"{JOBS}/waits", learner("waits", "Pending"))
    page.enter()
    wait_until(
        lambda: (
            page.served.cluster_cache.job("rl", "waits")
            and not page.served.cluster_cache.live_pods()
        )
    )
    wait_until(lambda: ", after runs" in page.get("/cluster").text)
    text = page.get("/cluster").text
    assert '<td data-label="Share">2</td>' in text
    assert "<code>fit</code>" in text
