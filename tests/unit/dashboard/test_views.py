"""What the pages show of objects of the cluster, without a page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest

from di_cli.edits.limits import Limits, limits
from di_cli.edits.scaling import ScalingError
from di_cli.views.ends import End
from di_dashboard.cluster_cache.entry import entry_of
from di_dashboard.history.seen import Change
from di_dashboard.history.series import MOST_NAMES, MOST_POINTS, Series, numbers_of
from di_dashboard.views.cluster import cluster_page
from di_dashboard.views.curves import as_csv, charts
from di_dashboard.views.effects import Action, done, effect, possible
from di_dashboard.views.jobs import PAGE, Filters, jobs_page, mood_of
from di_dashboard.views.pods import grid, in_table, truth_of
from di_dashboard.views.sparks import Spark, spark
from di_dashboard.views.timeline import FORGOTTEN, MOST_MARKS, timeline
from tests.unit.cli.conftest import job, node, pod

Object = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01T{clock}Z")


def labelled(name: str, phase: str = "Running", namespace: str = "rl", **labels: str) -> Object:
    body = job(name, phase)
    body["metadata"] |= {"labels": labels, "namespace": namespace}
    return body


# ---------------------------------------------------------------- jobs
def names(filters: Filters, *jobs: Object) -> list[str]:
    return [each.row.name for each in jobs_page([*map(entry_of, jobs)], filters, NOW).rows]


@pytest.mark.proves("dashboard.md#jobs")
def test_jobs_are_filtered_by_name_namespace_and_label() -> None:
    jobs = (
        labelled("grpo-7b", owner="ann"),
        labelled("cartpole", namespace="lab", owner="bob"),
        labelled("half", "Failed", owner="ann"),
    )
    assert names(Filters(query="GRPO"), *jobs) == ["grpo-7b"]
    assert names(Filters(query="lab bob"), *jobs) == ["cartpole"]
    assert names(Filters(label="owner=ann"), *jobs) == ["grpo-7b", "half"]
    assert names(Filters(label="owner=ann", phase="Failed"), *jobs) == ["half"]
    assert names(Filters(namespace="lab"), *jobs) == ["cartpole"]
    assert names(Filters(label="nothing"), *jobs) == ["grpo-7b", "cartpole", "half"]


def test_jobs_are_filtered_by_owner_and_queue() -> None:
    queue = "kueue.x-k8s.io/queue-name"
    jobs = (
        labelled("a", owner="ann", **{queue: "gpu"}),
        labelled("b", owner="bob", **{queue: "gpu"}),
        labelled("c", owner="bob"),
    )
    assert names(Filters(owner="bob"), *jobs) == ["b", "c"]
    assert names(Filters(owner="bob", queue="gpu"), *jobs) == ["b"]
    found = jobs_page([*map(entry_of, jobs)], Filters(owner="bob"), NOW)
    assert found.owners == [("bob", 2), ("ann", 1)]
    assert found.queues == [("gpu", 1)]
    link = Filters(owner="bob", queue="gpu").link(page=2)
    assert Filters.read(dict(parse_qsl(link[1:]))) == Filters(owner="bob", queue="gpu", page=2)
    assert Filters(queue="x").any
    assert not Filters(page=3).any


def test_jobs_are_sorted_and_filtered_by_duration() -> None:
    jobs = []
    for place, name in enumerate("abc"):
        body = labelled(name)
        began = f"2026-03-01T{11 - place:02}:00:00Z"
        body["status"] |= {"startTime": began, "restarts": 3 - place}
        jobs.append(body)
    assert names(Filters(sort="duration"), *jobs) == ["c", "b", "a"]
    assert names(Filters(sort="restarts"), *reversed(jobs)) == ["a", "b", "c"]
    assert names(Filters(longer="1h", sort="name"), *jobs) == ["a", "b", "c"]
    assert names(Filters(longer="1d"), *jobs) == []
    found = jobs_page([*map(entry_of, jobs)], Filters(), NOW)
    assert found.longer == [("1h", 3)]
    assert [each.ran for each in found.rows] == ["1h", "2h", "3h"]
    link = Filters(longer="7d", sort="gpus").link()
    assert Filters.read(dict(parse_qsl(link[1:]))) == Filters(longer="7d", sort="gpus")
    assert Filters.read({"longer": "soon", "sort": "x"}) == Filters()
    assert not Filters(sort="age").any


def test_a_row_has_sparklines_and_the_expected_start() -> None:
    body = labelled("a", "Pending")
    series = Series()
    for at_ in (1.0, 2.0, 3.0):
        series.add(at_, {"episodeReturn": 10 * at_, "learnerWaitFrac": 0.5})
    end = End(uid="x", key="rl/x", seconds=120.0)
    (shown,) = jobs_page(
        [entry_of(body)], Filters(), NOW, series=lambda _: series, starts={"uid-a": end}
    ).rows
    assert (shown.gain.last, shown.gain.words) == (30.0, "from 10 to 30")
    assert shown.gain.points == "0.0,16.5 32.0,9.0 64.0,1.5"
    assert shown.waiting.points == "0.0,9.0 32.0,9.0 64.0,9.0"
    assert shown.starts == "starts in about 2m"
    alone = {**body, "spec": {"tasks": [{"type": "learner"}]}}
    (of_one,) = jobs_page([entry_of(alone)], Filters(), NOW, series=lambda _: series).rows
    assert of_one.waiting == Spark()
    (shown,) = jobs_page([entry_of(body)], Filters(), NOW, starts={"uid-a": None}).rows
    assert (shown.starts, shown.gain) == ("starts at the next look", Spark())


@pytest.mark.parametrize("count", [1, 2, 47, 49, 480])
def test_a_sparkline_ends_with_the_last_value(count: int) -> None:
    found = spark([(float(i), 5.0) for i in range(count - 1)] + [(float(count), 7.0)])
    assert found.last == 7.0
    assert len(found.points.split()) <= 48
    assert not found.points or found.points.endswith("64.0,1.5")


def test_a_page_has_a_fixed_number_of_jobs() -> None:
    jobs = [entry_of(labelled(f"job-{i:03}")) for i in range(2 * PAGE + 1)]
    last = jobs_page(jobs, Filters(page=99), NOW)
    assert [each.row.name for each in last.rows] == [f"job-{2 * PAGE:03}"]
    assert (last.pages, last.filters.page, last.found, last.total) == (3, 3, 101, 101)
    assert last.phases == [("Running", 101)]


@pytest.mark.parametrize("page", ["0", "-1", "x", "", "9" * 20, "²"])
def test_a_bad_page_number_is_the_first_page(page: str) -> None:
    assert Filters.read({"page": page}).page == 1


def test_a_filter_link_starts_at_the_first_page() -> None:
    filters = Filters.read({"q": "a b", "namespace": "rl", "page": "3"})
    assert filters.link(phase="Failed") == "?q=a+b&namespace=rl&phase=Failed"
    assert filters.link(page=4) == "?q=a+b&namespace=rl&page=4"


def test_a_running_job_in_trouble_is_not_shown_as_good() -> None:
    assert mood_of("Running", "JobRunning") == "good"
    assert mood_of("Running", "CrashLoopBackOff") == "busy"
    assert [mood_of(each) for each in ("Pending", "Failed", "Succeeded", "Starting")] == [
        *("waits", "bad", "over", "busy")
    ]


# ---------------------------------------------------------------- pods
def test_pods_are_grouped_by_task_and_sorted_by_rank() -> None:
    pods = [pod("a", "collector", 1, 2), pod("a", "learner", 0, 0), pod("a", "collector", 0, 1)]
    lines = grid(pods, NOW)
    assert [(line.name, [cell.index for cell in line.cells]) for line in lines] == [
        ("learner", [0]),
        ("collector", [0, 1]),
    ]
    assert {cell.mood for line in lines for cell in line.cells} == {"good"}


WAITING = {"reason": "ImagePullBackOff", "message": "no such image"}
KILLED = {"exitCode": 137, "reason": "OOMKilled"}
CRASHED = {"exitCode": 1, "reason": "Error", "message": "boom\nValueError: 3"}


@pytest.mark.parametrize(
    ("state", "last", "mood", "truth"),
    [
        ({"waiting": WAITING}, {}, "bad", "c waits: ImagePullBackOff, no such image"),
        ({"terminated": KILLED}, {}, "bad", "c ended with exit code 137 (OOMKilled)"),
        (
            {"waiting": {"reason": "CrashLoopBackOff"}},
            {"terminated": CRASHED},
            "bad",
            "c waits: CrashLoopBackOff, it ended with exit code 1: ValueError: 3",
        ),
        ({"waiting": {"reason": "ContainerCreating"}}, {}, "waits", ""),
        (
            {"running": {}},
            {"terminated": KILLED},
            "good",
            "before its last restart c ended with exit code 137 (OOMKilled)",
        ),
    ],
)
def test_a_pods_message_comes_from_its_containers(
    state: Object, last: Object, mood: str, truth: str
) -> None:
    containers = [{"name": "c", "state": state, "lastState": last, "restartCount": 2}]
    body = pod("a", "learner", 0, 0, containerStatuses=containers)
    (line,) = grid([body], NOW)
    assert (line.cells[0].mood, line.cells[0].truth, line.cells[0].restarts) == (mood, truth, 2)
    assert [each.mood for each in in_table([line])] == [mood]


def test_an_unscheduled_pod_shows_the_schedulers_message() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    assert truth_of({"status": {"conditions": [condition]}}) == "no node: 0/3 nodes are available"


@pytest.mark.parametrize("body", [{}, {"status": "x"}, {"status": {"containerStatuses": [3]}}])
def test_a_pod_of_any_shape_is_shown(body: Object) -> None:
    assert len(grid([body], NOW)) == 1


# ---------------------------------------------------------------- time
def event(reason: str, clock: str, kind: str = "Normal", message: str = "so") -> Object:
    return {
        "type": kind,
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-03-01T{clock}Z",
        "involvedObject": {"kind": "DIJob", "name": "a"},
    }


def phases(body: Mapping[str, Any], *events: Object, changes: tuple[Change, ...] = ()) -> list[str]:
    return [each.phase for each in timeline(body, events, changes, NOW).spans]


def test_phases_are_made_of_events_and_conditions() -> None:
    body = job("a", "Running")
    told = [event("JobStarting", "09:10:00"), event("JobRestarting", "11:00:00", "Warning")]
    assert phases(body, *told) == ["Pending", "Starting", "Restarting", "Running"]


def test_the_present_phase_is_the_last_of_its_second() -> None:
    body = job("a", "Running")
    (condition,) = body["status"]["conditions"]
    clock = condition["lastTransitionTime"][11:19]
    told = [event("JobRunning", "09:30:00")]
    told += [event(reason, clock) for reason in ("JobRescheduling", "JobStarting")]
    assert phases(body, *told)[-1] == "Running"


def test_live_changes_precede_events_of_the_same_time() -> None:
    body = job("a", "Running")
    changes = tuple(
        Change(at=at(clock), kind="phase", text=text)
        for clock, text in (("09:05:00.300", "Starting"), ("09:06:00.900", "Running"))
    )
    told = [event("JobStarting", "09:05:00"), event("JobRunning", "09:06:00")]
    assert phases(body, *told, changes=changes) == ["Pending", "Starting", "Running"]


def test_unknown_phases_are_a_gap() -> None:
    body = job("a", "Running", startTime="2026-03-01T09:00:10Z")
    found = timeline(body, [], [], NOW)
    assert [each.phase for each in found.spans] == ["Pending", FORGOTTEN, "Running"]
    assert "remembers no phases" in found.spans[1].title


def test_the_axis_ends_with_the_job_and_its_spans_fill_it() -> None:
    body = job("a", "Succeeded", completionTimestamp="2026-03-01T11:30:00Z")
    found = timeline(body, [event("JobRunning", "10:00:00")], [], NOW)
    assert (found.start, found.end) == (at("09:00:00"), at("11:30:00"))
    assert sum(each.width for each in found.spans) == pytest.approx(100, abs=0.01)
    assert [left for left, _, _ in found.ticks] == sorted(left for left, _, _ in found.ticks)


def test_the_end_of_a_job_takes_no_time_on_its_axis() -> None:
    body = job("a", "Succeeded", completionTimestamp="2026-03-01T11:30:01Z")
    changes = (
        Change(at=at("09:00:01"), kind="phase", text="Running"),
        Change(at=at("11:30:00.200"), kind="phase", text="Succeeded"),
    )
    assert phases(body, changes=changes) == ["Pending", "Running"]


def test_changes_are_listed_newest_first_with_their_kind() -> None:
    failures = [
        {"time": "2026-03-01T10:00:00Z", "pod": "a-learner-0", "exitCode": 1, "reason": "Error"}
    ]
    body = job("a", "Running", failures=failures)
    changes = [Change(at=at("11:00:00"), kind="replicas", text="collector 2 -> 4")]
    told = [
        event("JobRescheduling", "11:00:01"),
        event("ReportRejected", "11:10:00", "Warning"),
        event("GroupFormed", "11:20:00"),
    ]
    found = timeline(body, told, changes, NOW)
    assert [(each.kind, each.text) for each in found.marks] == [
        ("note", "so"),
        ("warning", "so"),
        ("move", "so"),
        ("scale", "collector 2 -> 4"),
        ("restart", "a-learner-0: exit code 1, Error"),
    ]


def test_the_oldest_changes_are_omitted_and_counted() -> None:
    changes = [
        Change(at=at("10:00:00") + timedelta(seconds=i), kind="replicas", text=str(i))
        for i in range(MOST_MARKS + 3)
    ]
    found = timeline(job("a", "Running"), [], changes, NOW)
    assert (len(found.marks), found.left_out) == (MOST_MARKS, 3)
    assert found.marks[0].text == str(MOST_MARKS + 2)


@pytest.mark.parametrize(
    "body", [{}, {"metadata": {"creationTimestamp": "2027-01-01T00:00:00Z"}}, {"status": []}]
)
def test_a_job_of_any_shape_has_an_axis(body: Object) -> None:
    found = timeline(body, [{}], [], NOW)
    assert found.end > found.start


# ---------------------------------------------------------------- curves
def test_a_long_series_is_thinned_and_keeps_its_ends() -> None:
    series = Series()
    for i in range(MOST_POINTS + 1):
        series.add(float(i), {"x": float(i)})
    points = series.points("x")
    assert (points[0], points[-1]) == ((0.0, 0.0), (float(MOST_POINTS), float(MOST_POINTS)))
    assert len(points) == MOST_POINTS // 2 + 1


def test_late_and_repeated_values_have_their_times() -> None:
    series = Series()
    series.add(1.0, {"a": 1.0})
    series.add(2.0, {"b": 5.0})
    series.add(2.0, {"b": 6.0})
    assert series.points("a") == [(1.0, 1.0)]
    assert series.points("b") == [(2.0, 6.0)]


def test_the_number_of_series_names_is_bounded() -> None:
    series = Series()
    series.add(1.0, {f"name{i}": 1.0 for i in range(MOST_NAMES + 50)})
    assert len(series.values) == MOST_NAMES


def test_a_report_gives_finite_numbers_only() -> None:
    report = {"a": 1, "b": True, "c": "x", "d": float("inf"), "e": {"f": 1}, "g": float("nan")}
    assert numbers_of(report) == {"a": 1.0}


def test_charts_are_sorted_by_importance() -> None:
    series = Series()
    report = {"loss": 0.5, "learnerWaitFrac": 0.25, "episodeReturn": 12.0, "step": 3.0}
    numbers = {**report, "ready learner": 1.0, "ready collector": 2.0}
    series.add(0.0, numbers)
    assert charts(series.all_points()) == []
    series.add(1.0, numbers)
    found = charts(series.all_points())
    assert [(each.title, each.last) for each in found] == [
        ("Return", "12"),
        ("Waiting", "25 %"),
        ("Pods that run", "learner 1, collector 2"),
        ("loss", "0.5"),
    ]
    alone = charts(series.all_points(), has_samplers=False)
    assert "Waiting" not in [each.title for each in alone]


def test_the_return_is_a_curve_under_any_spelling() -> None:
    points = {"charts/episodic_return": [(0.0, 1.0), (1.0, 2.0)]}
    assert [(each.title, each.last) for each in charts(points)] == [("Return", "2")]


def test_the_idle_share_of_gpus_is_a_chart() -> None:
    (chart,) = charts({"gpuIdleFrac": [(0.0, 0.25), (1.0, 0.5)]})
    assert (chart.title, chart.last) == ("Idle GPUs", "50 %")


def test_a_spreadsheet_takes_no_name_for_a_formula() -> None:
    text = as_csv({"=HYPERLINK()": [(0.0, 1.0)], "loss": [(60.0, 0.5)]})
    assert text.splitlines() == [
        "time,'=HYPERLINK(),loss",
        "1970-01-01T00:00:00.000+00:00,1.0,",
        "1970-01-01T00:01:00.000+00:00,,0.5",
    ]


def test_every_number_has_a_curve_and_the_first_are_drawn() -> None:
    names = ("a1", "a2", "a3", "a4", "clip_frac", "entropy", "loss", "lr")
    found = charts({name: [(0.0, 1.0), (1.0, 2.0)] for name in names})
    assert {each.title for each in found} == set(names)
    assert [each.title for each in found if each.is_shown] == ["loss", "lr", "entropy", "a1"]


# ---------------------------------------------------------------- the cluster
def test_holders_are_parts_of_a_node() -> None:
    other = pod("a", "learner", 0, 0)
    other["metadata"]["ownerReferences"] = []
    found = cluster_page(
        nodes=[node("gpu-1", 16), node("gpu-2", 8)],
        live_pods=[pod("a", "learner", 0, 0), other],
        jobs=[job("half", "Pending")],
        asked="",
        now=NOW,
    )
    assert (found.resource, found.held, found.free, found.total) == (
        "nvidia.com/gpu",
        *"8",
        "16",
        "24",
    )
    first = found.nodes[0]
    assert [(each.holder, each.left, each.width) for each in first.pieces] == [
        ("rl/a", 0.0, 25.0),
        ("pods of no job", 25.0, 25.0),
    ]
    assert first.label == "gpu-1: rl/a 4, pods of no job 4, free 8"
    assert [each.name for each in found.waiting] == ["half"]


def test_free_capacity_of_cordoned_nodes_is_counted_apart() -> None:
    cordoned = node("gpu-2", 8)
    cordoned["spec"]["unschedulable"] = True
    nodes = [node("gpu-1", 16), cordoned]
    found = cluster_page(
        nodes=nodes, live_pods=[pod("a", "learner", 0, 0)], jobs=[], asked="", now=NOW
    )
    assert (found.held, found.free, found.closed, found.total) == ("4", "12", "8", "24")
    assert cluster_page(nodes=nodes[:1], live_pods=[], jobs=[], asked="", now=NOW).closed == ""


def test_an_unknown_resource_falls_back_to_gpus() -> None:
    found = cluster_page(nodes=[node("n", 1)], live_pods=[], jobs=[], asked="a<b", now=NOW)
    assert found.resource == "nvidia.com/gpu"


# ---------------------------------------------------------------- acting
def of_bounds(least: str, most: str, **fields: Any) -> Limits:
    body = job("a", "Running")
    body["spec"]["tasks"][1] |= fields
    return limits(body, "collector", least, most)


@pytest.mark.parametrize(
    ("least", "most", "patch", "said"),
    [
        (
            *("1", "8", "minReplicas 1, maxReplicas 8"),
            "collector minReplicas none -> 1, maxReplicas 4 -> 8: its 2 replicas stay.",
        ),
        ("", "", "maxReplicas None", "collector maxReplicas 4 -> none"),
        (
            *("3", "4", "minReplicas 3, maxReplicas 4, replicas 3"),
            "collector minReplicas none -> 3: its replicas 2 -> 3, since 2 would be out of that.",
        ),
        (" 1 ", "1", "minReplicas 1, maxReplicas 1, replicas 1", "2 -> 1"),
    ],
)
def test_other_limits_keep_the_replicas_within(
    least: str, most: str, patch: str, said: str
) -> None:
    found = of_bounds(least, most)
    changed = [
        f"{each['path'].removeprefix('/spec/tasks/1/')} {each.get('value')}"
        for each in found.patch[1:]
    ]
    assert ", ".join(changed) == patch
    assert all(each["op"] == ("add" if "value" in each else "remove") for each in found.patch[1:])
    assert said in effect(Action.LIMITS, job("a", "Running"), 3, found)
    assert done(Action.LIMITS, "a", found).startswith("a has other limits: collector ")


@pytest.mark.parametrize(
    ("least", "most", "wrong"),
    [
        ("5", "4", "minReplicas 5 is above maxReplicas 4"),
        ("x", "", "minReplicas is a number"),
        ("", "0", "maxReplicas is a number"),
        ("", "12345678", "maxReplicas is a number"),
    ],
)
def test_bad_limits_are_refused(least: str, most: str, wrong: str) -> None:
    with pytest.raises(ScalingError, match=wrong):
        of_bounds(least, most)


def test_possible_actions_depend_on_the_job() -> None:
    running, over = (
        job("a", "Running"),
        job("a", "Failed", completionTimestamp="2026-03-01T11:00:00Z"),
    )
    assert possible(running) == [Action.SCALE, Action.LIMITS, Action.SUSPEND, Action.DELETE]
    assert possible(over) == [Action.DELETE]
    running["spec"]["suspend"] = True
    assert Action.RESUME in possible(running)
    running["metadata"]["deletionTimestamp"] = "2026-03-01T11:00:00Z"
    assert possible(running) == []
    assert Action.SCALE not in possible({"spec": {"coordinated": {"coordinator": {}}}})


@pytest.mark.parametrize("action", [Action.SUSPEND, Action.RESUME, Action.DELETE])
def test_each_action_describes_its_effect(action: Action) -> None:
    assert "a" in effect(action, job("a", "Running"), 3, None)
    assert done(action, "a", None).startswith("a ")
