"""What the page shows of a history: also of one that is late, away, or has less than was seen."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from di_dashboard.history.kept import FRESH_SECONDS, Away, Kept, NotKept, Refused, Told
from di_dashboard.history.seen import Change
from di_dashboard.views.curves import charts, together
from di_dashboard.views.revisions import changes
from di_dashboard.views.story import Story, cause_of_move, sentence, story_of
from di_dashboard.views.timeline import timeline
from tests.fakes.api_server import StandIn
from tests.fakes.history import KEPT, LOGS, Service, answering
from tests.unit.cli.conftest import JOBS, job
from tests.unit.dashboard.conftest import Page
from tests.waiting import wait_until

Object = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
UID = "uid-cartpole"


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01T{clock}Z")


def told(*entries: Object, **more: object) -> Story:
    return story_of({"job": {"name": "a"}, "timeline": [*entries], **more}, {})


def entry(kind: str, clock: str, **data: object) -> Object:
    return {"kind": kind, "at": f"2026-03-01T{clock}.000Z", **data}


# ---------------------------------------------------------------- stories
@pytest.mark.proves("dashboard.md#with-a-history")
def test_a_history_shows_users_causes_and_log_tails() -> None:
    found = told(
        entry("scaling", "10:00:00", task="collector", before=2, after=4, who="di-server"),
        entry(
            "allocation",
            "10:00:20",
            before={"collector": {"gpu-1": 2}},
            after={"collector": {"gpu-1": 2, "gpu-2": 2}},
        ),
        entry(
            "failure",
            "11:00:00",
            pod="a-learner-0",
            exitCode=137,
            reason="OOMKilled",
            lastLines="2026-03-01T10:59:59Z one\n2026-03-01T11:00:00Z MemoryError",
        ),
    )
    shown = [(each.kind, each.text, [*each.lines]) for each in found.happened]
    assert shown == [
        ("scale", "collector 2 -> 4, asked by di-server", []),
        (
            "move",
            "2 on gpu-1 -> 2 on gpu-1, 2 on gpu-2. Why: collector 2 -> 4, asked by di-server",
            [],
        ),
        ("restart", "a-learner-0: exit code 137, OOMKilled", ["one", "MemoryError"]),
    ]


@pytest.mark.parametrize(
    ("kind", "clock", "data", "cause"),
    [
        ("failure", "09:59:30", {"pod": "p", "exitCode": 1}, "p failed (exit code 1)"),
        (
            "event",
            "10:00:01",
            {"reason": "JobRescheduling", "message": "collector has  4"},
            "JobRescheduling: collector has 4",
        ),
        ("phase", "09:59:59", {"reason": "WaitingForNodes", "message": "m"}, "WaitingForNodes: m"),
        ("failure", "10:00:03", {"pod": "p"}, "the allocator assigned the nodes again"),
        ("scaling", "09:50:00", {"task": "t"}, "the allocator assigned the nodes again"),
    ],
)
def test_the_cause_of_a_move_is_what_came_just_before(
    kind: str, clock: str, data: Object, cause: str
) -> None:
    near = [(at(clock), entry(kind, clock, **data))]
    assert cause_of_move(at("10:00:00"), near).startswith(cause)


def test_a_gap_is_marked_on_the_axis_and_described() -> None:
    story = told(entry("gap", "10:30:00", **{"from": "2026-03-01T10:00:00Z", "changed": []}))
    found = timeline(job("a", "Running"), [], [], NOW, story)
    ((hole,), (mark,)) = (found.holes, found.marks)
    assert (hole.left, hole.width) == (33.333, 16.667)
    assert "nobody looked for 30m" in hole.title
    assert mark.kind == "gap"


def test_entries_of_history_and_page_are_merged() -> None:
    story = told(
        entry("phase", "09:00:10", phase="Starting"),
        entry("phase", "09:01:00", phase="Running"),
        entry("scaling", "10:00:00", task="collector", before=2, after=4, who="di-server"),
        entry("failure", "11:00:00", pod="p", exitCode=1, lastLines="t last"),
        entry("event", "11:00:00", object="Pod/p", reason="BackOff", message="of a pod"),
    )
    body = job(
        "a", "Running", failures=[{"time": "2026-03-01T11:00:00Z", "pod": "p", "exitCode": 1}]
    )
    seen = [
        Change(at=at("10:00:01.200"), kind="replicas", text="collector 2 -> 4"),
        Change(at=at("11:30:00"), kind="replicas", text="collector 4 -> 1"),
    ]
    found = timeline(body, [], seen, NOW, story)
    assert [each.phase for each in found.spans] == ["Pending", "Starting", "Running"]
    assert [(each.text, [*each.lines]) for each in found.marks] == [
        ("collector 4 -> 1", []),
        ("p: exit code 1", ["last"]),
        ("collector 2 -> 4, asked by di-server", []),
    ]


def test_curves_join_kept_and_live_values() -> None:
    story = story_of(
        {},
        {"samples": [{"at": f"2026-03-01T10:00:0{i}.000Z", "values": {"loss": i}} for i in (0, 5)]},
    )
    start = at("10:00:00").timestamp()
    points = together(story.points, {"loss": [(start + 5.3, 5.0), (start + 8, 8.0)], "new": []})
    assert points["loss"] == [(start, 0.0), (start + 5, 5.0), (start + 8, 8.0)]


def test_pods_that_ran_are_counted_where_they_were_placed() -> None:
    places = [
        {"pod": "p0", "task": "learner", "node": "n", "since": "2026-03-01T10:00:00Z"},
        {
            **{"pod": "p1", "task": "learner", "node": "n", "since": "2026-03-01T10:00:00Z"},
            "until": "2026-03-01T10:00:09Z",
        },
    ]
    points = told(placements=places).points["ready learner"]
    start = at("10:00:00").timestamp()
    assert points == [(start, 2.0), (start + 9, 1.0)]
    (chart,) = charts({"ready learner": points})
    assert (chart.title, chart.stepped) == ("Pods that run", True)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"phase": "Failed", "completed": "2026-03-01T11:00:00Z"}, "a failed 1h ago."),
        (
            {"phase": "Running", "deleted": "2026-03-01T11:30:00Z"},
            "a was deleted 30m ago while it was Running.",
        ),
        ({"phase": "Pending"}, "a was Pending when it was last seen."),
    ],
)
def test_the_end_of_a_job_is_a_sentence(what: Object, said: str) -> None:
    assert sentence(story_of({"job": {"name": "a", **what}}, {}), NOW) == said


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"job": [], "timeline": "x", "placements": [3], "logs": {}, "revisions": [{}]},
        {"job": {"name": 3}, "timeline": [{"kind": "gap", "at": "2026-03-01T10:00:00Z"}]},
        {"timeline": [{"kind": each, "at": "2026-03-01T10:00:00Z"} for each in KEPT["timeline"]]},
        {
            "timeline": [
                {"kind": "allocation", "at": "2026-03-01T10:00:00Z", "before": {"a": {"n": "x"}}}
            ]
        },
    ],
)
def test_a_history_answer_of_any_shape_is_shown(answer: Object) -> None:
    story = story_of(answer, {"samples": [{"at": "2026-03-01T10:00:00Z", "values": {"a": "x"}}, 4]})
    assert timeline(job("a", "Running"), [], [], NOW, story).spans
    assert sentence(story, NOW)


def test_a_revision_shows_its_changed_lines() -> None:
    found = changes({"a": 1, "b": 2}, {"a": 1, "b": 3})
    assert [each for each in found if each[0] in ("added", "removed")] == [
        ("removed", "-b: 2"),
        ("added", "+b: 3"),
    ]


# ---------------------------------------------------------------- how it is asked
class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Returns a configured answer once it is released."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: bytes | Exception = b'{"job": {"name": "a"}}'
        self.open = threading.Event()
        self.open.set()

    def __call__(self, namespace: str, path: str, query: Mapping[str, str]) -> bytes:
        self.asked += 1
        self.open.wait(60)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def kept(source: Source, clock: Clock, patience: float = 30) -> tuple[Kept, list[str]]:
    topics: list[str] = []
    return Kept(source, tell=topics.append, clock=clock, patience=patience), topics


def test_a_fresh_answer_is_shared_and_then_renewed() -> None:
    source, clock = Source(), Clock()
    found, topics = kept(source, clock)
    assert [found.get("rl", "/x", "topic") for _ in range(5)] == [
        Told(value={"job": {"name": "a"}})
    ] * 5
    assert (source.asked, topics) == (1, []), "nobody was shown anything older"
    clock.now = FRESH_SECONDS + 1
    source.answer = b'{"job": {"name": "b"}}'
    assert found.get("rl", "/x", "topic").value == {"job": {"name": "a"}}
    wait_until(lambda: topics == ["topic"])
    assert found.get("rl", "/x", "topic").value == {"job": {"name": "b"}}
    assert source.asked == 2


def test_a_page_does_not_wait_for_a_slow_history() -> None:
    source, clock = Source(), Clock()
    source.open.clear()
    found, topics = kept(source, clock, patience=0.01)
    assert found.get("rl", "/x", "topic").wrong == "it has not answered yet"
    assert topics == []
    source.open.set()
    wait_until(lambda: topics == ["topic"])
    assert found.get("rl", "/x").value == {"job": {"name": "a"}}


def test_an_unreachable_history_is_retried_later_and_old_answers_stay() -> None:
    source, clock = Source(), Clock()
    found, _ = kept(source, clock)
    found.get("rl", "/known")
    source.answer = Away("no way there")
    assert found.get("rl", "/x").wrong == "no way there"
    clock.now = FRESH_SECONDS + 1
    asked = source.asked
    assert found.get("rl", "/other").wrong == "no way there"
    assert found.get("rl", "/known").value == {"job": {"name": "a"}}
    assert source.asked == asked
    clock.now += 60
    source.answer = b"{}"
    assert found.get("rl", "/new") == Told()


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (NotKept("x"), ""),
        (Refused("you may not"), "you may not"),
        (KeyError("x"), "it could not be asked: KeyError"),
        (b"<html>", "its answer is no JSON"),
        (b"[]", ""),
    ],
)
def test_a_bad_answer_is_reported_and_the_next_request_works(
    answer: bytes | Exception, wrong: str
) -> None:
    source = Source()
    found, _ = kept(source, Clock())
    source.answer = answer
    assert found.get("rl", "/x") == Told(wrong=wrong, is_refused=isinstance(answer, Refused))
    source.answer = b'{"a": 1}'
    assert found.get("rl", "/y").value == {"a": 1}


def test_cached_answers_are_bounded_in_bytes() -> None:
    source, clock = Source(), Clock()
    source.answer = b'{"a": "%s"}' % (b"x" * 50)
    found = Kept(source, tell=lambda _: None, clock=clock, most_bytes=100)
    for path in ("/x", "/x", "/y", "/y", "/x"):
        assert found.get("rl", path).value == {"a": "x" * 50}
    assert source.asked == 3, "the second answer has displaced the first one"
    source.answer = b'{"a": "%s"}' % (b"x" * 200)
    assert [found.get("rl", "/z").value["a"] for _ in range(2)] == ["x" * 200] * 2
    assert source.asked == 4, "the last answer is cached whatever its size"


def test_without_a_history_there_is_no_error() -> None:
    found = Kept(None, tell=lambda _: None, clock=Clock())
    assert (found.get("rl", "/x"), found.is_asked) == (Told(), False)


# ---------------------------------------------------------------- the pages
MANIFEST = {"apiVersion": "diengine.opendilab.org/v2alpha1", "kind": "DIJob", "spec": {"tasks": []}}


@pytest.fixture
def service() -> Iterator[Service]:
    with answering() as found:
        gone = deepcopy(KEPT)
        gone["job"] |= {"name": "gone", "uid": "u1", "completed": "2026-03-01T11:26:00Z"}
        gone["revisions"].append(
            {"number": 2, "at": "2026-03-01T09:10:00.000Z", "who": "di-server"}
        )
        found.answers["/v1/jobs/rl/gone"] = gone
        samples = [
            {"at": f"2026-03-01T09:0{i}:00.000Z", "values": {"episodeReturn": 10.0 * i}}
            for i in range(1, 6)
        ]
        found.answers["/v1/jobs/rl/gone/series"] = {"samples": samples}
        found.answers["/v1/jobs/rl/gone/revisions/1"] = MANIFEST
        found.answers["/v1/jobs/rl/gone/revisions/2"] = {**MANIFEST, "spec": {"tasks": ["x"]}}
        for pod, text in LOGS.items():
            key = pod.replace("cartpole", "gone")
            found.answers[f"/v1/jobs/rl/gone/logs/{pod}"] = text
            found.answers[f"/v1/jobs/rl/gone/logs/{key}"] = text
        found.answers["/v1/jobs"] = {"jobs": [gone["job"]], "next": "12-u1"}
        yield found


def test_a_deleted_job_has_a_page(asking: Page, service: Service, world: StandIn) -> None:
    text = asking.get("/jobs/rl/gone").text
    for word in (
        "gone failed 34m ago and was deleted 30m ago. Its last message: 3 pods ready",
        "not in the cluster any more",
        "collector 2 -&gt; 0, asked by di-server",
        "MemoryError",
        "nobody looked for 5m",
        "Return over time, now 50",
        "revision 2",
        "gpu-3",
        "Logs of 2 ended containers",
    ):
        assert word in text
    assert 'class="hole"' in text
    assert {token for _, token in service.asked} == {"Bearer secret"}
    assert not [path for _, path, _ in world.requests if path.endswith("/token")]


def test_a_user_without_permission_reads_that_it_is_not_allowed(
    asking: Page, service: Service
) -> None:
    service.status = 403
    begin = "You are not allowed to read the history: di-history refused it (403): refused: x."
    for path in ("/ended", "/jobs/rl/gone"):
        assert begin in asking.get(path).text


def test_a_live_job_shows_its_history(asking: Page, service: Service, world: StandIn) -> None:
    about = deepcopy(KEPT)
    about["job"] |= {"name": "grpo-7b"}
    service.answers["/v1/jobs/rl/grpo-7b"] = about
    text = asking.get("/jobs/rl/grpo-7b").text
    assert "From the history." in text
    assert "collector 2 -&gt; 0, asked by di-server" in text
    uid = world.objects[f"{JOBS}/grpo-7b"]["metadata"]["uid"]
    assert any(path == f"/v1/jobs/rl/grpo-7b?uid={uid}" for path, _ in service.asked)


def test_an_earlier_job_of_the_same_name_has_a_page(asking: Page, service: Service) -> None:
    service.answers["/v1/jobs/rl/grpo-7b"] = KEPT
    text = asking.get("/jobs/rl/grpo-7b?uid=u0").text
    assert "not in the cluster any more" in text
    assert re.search(r'href="/ended" aria-current="true">Ended<', text)
    assert 'aria-current="true">Jobs<' not in text


def test_without_its_history_a_page_shows_live_changes(
    asking: Page, service: Service, world: StandIn
) -> None:
    service.status = 503
    service.answers["/v1/jobs/rl/grpo-7b"] = KEPT
    body = deepcopy(world.objects[f"{JOBS}/grpo-7b"])
    body["spec"]["tasks"][1]["replicas"] = 7
    world.put(f"{JOBS}/grpo-7b", body)
    wait_until(lambda: "-&gt; 7" in asking.get("/jobs/rl/grpo-7b").text)
    text = asking.get("/jobs/rl/grpo-7b").text
    assert "The history is away: di-history refused it (503): refused: x" in text
    assert "What is shown is what this page has seen itself" in text
    answer = asking.get("/jobs/rl/nobody")
    assert (answer.status_code, "The history is away" in answer.text) == (404, True)
    assert "The history is away" in asking.get("/ended").text


def test_jobs_that_have_ended_are_listed_a_page_at_a_time(asking: Page, service: Service) -> None:
    text = asking.get("/ended").text
    assert "/jobs/rl/gone?uid=u1" in text
    assert "page=12-u1" in text
    asking.get("/ended?page=12-u1")
    paths = [path for path, _ in service.asked]
    assert "/v1/jobs?limit=50&namespace=rl&over=true" in paths
    assert "/v1/jobs?limit=50&namespace=rl&over=true&page=12-u1" in paths


@pytest.mark.proves("dashboard.md#with-a-history")
def test_a_revision_has_a_page_with_its_changes(asking: Page) -> None:
    text = asking.get("/jobs/rl/gone/revisions/2?uid=u1").text
    assert '<span class="diff added">+  - x' in text
    assert "di rollback gone --to 2 -n rl" in text
    raw = asking.get("/jobs/rl/gone/revisions/1?uid=u1&raw")
    assert raw.headers["Content-Type"].startswith("text/plain")
    assert asking.get("/jobs/rl/gone/revisions/9").status_code == 404


def test_kept_logs_are_side_by_side_and_searched(asking: Page) -> None:
    two = "pod=cartpole-learner-0&pod=cartpole-collector-0"
    text = asking.get(f"/jobs/rl/gone/ended-logs?uid=u1&{two}").text
    assert "<span>a</span>" in text
    assert "<span>b</span>" in text
    assert "cartpole-collector-1: gone" in text
    assert "<span>a</span>" not in asking.get(f"/jobs/rl/gone/ended-logs?q=c&{two}").text
    raw = asking.get("/jobs/rl/gone/ended-logs?pod=cartpole-learner-0&raw")
    assert raw.text == LOGS["cartpole-learner-0"]
    assert asking.get("/jobs/rl/nobody/ended-logs").status_code == 404


def test_without_a_history_pages_do_not_link_to_it(page: Page) -> None:
    page.enter()
    assert "/ended" not in page.get("/").text
    assert "The history" not in page.get("/jobs/rl/grpo-7b").text
    assert "No history is asked" in page.get("/ended").text
    assert "No history is asked" in page.get("/usage").text
