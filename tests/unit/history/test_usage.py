"""GPU-hours: their states, useful share and sums, compared with a count of every second."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_history.rest.usage import Query, answer_of, query_of
from di_history.store.usage import Asked, user_of
from di_history.usage.prices import Prices
from di_history.usage.states import Span, State, spans
from di_history.usage.sums import By, Held, Job, clipped, months, total, usage
from di_history.usage.useful import Report, Reports, Use, reports_of
from di_service.problems import Malformed
from tests.integration.history_records import T0

Object = dict[str, Any]
_WINDOW = 60
"""Seconds of the windows of the property tests."""
_PHASES = {
    "Pending": State.PENDING,
    "Starting": State.STARTING,
    "Running": State.RUNNING,
    "Restarting": State.REPLACING,
    "Rescheduling": State.REPLACING,
    "Succeeded": State.ENDED,
    "Failed": State.ENDED,
}
_SIMPLE = {
    State.STARTING: Use.STARTING,
    State.PENDING: Use.STARTING,
    State.REPLACING: Use.LOST,
    State.ENDED: Use.ENDED,
    State.NOT_KNOWN: Use.NOT_KNOWN,
}
_FRACTIONS = (0.0, 0.25, 0.5, 1.0)


def _held(number: int, job: str, gpus: int, first: int, last: int) -> Held:
    return Held(
        job=job,
        node=f"gpu-{number % 2}",
        task=("learner", "collector", "other")[number % 3],
        kind=("a100", "")[number % 2],
        gpus=gpus,
        since=1000 * first,
        until=1000 * last,
    )


_pods = st.lists(
    st.tuples(
        st.sampled_from("abcd"), st.integers(0, 8), st.integers(0, _WINDOW - 1), st.integers(1, 40)
    ),
    max_size=12,
).map(
    lambda found: [
        _held(number, job, gpus, first, min(first + lasts, _WINDOW))
        for number, (job, gpus, first, lasts) in enumerate(found)
    ]
)


@st.composite
def _timelines(draw: st.DrawFn) -> list[Object]:
    """Phases and gaps in order of time; some phases lack the one before them."""
    at, phase = draw(st.integers(-20, 10)), ""
    found: list[Object] = []
    for _ in range(draw(st.integers(0, 6))):
        lost = draw(st.integers(0, 5)) == 0
        following = draw(st.sampled_from([each for each in _PHASES if each != phase]))
        before = "Lost" if lost else phase
        found.append({"kind": "phase", "at": 1000 * at, "phase": following, "before": before})
        phase = following
        if draw(st.integers(0, 3)) == 0:
            since = at
            at += draw(st.integers(0, 10))
            found.append({"kind": "gap", "from": 1000 * since, "at": 1000 * at, "changed": []})
        at += draw(st.integers(0, 20))
    if draw(st.booleans()):
        found.append({"kind": "deleted", "at": 1000 * at})
    return found


class Sent(NamedTuple):
    """One report, in seconds."""

    at: int
    step: float
    learner_waits: float = 0.0
    collector_waits: float = 0.0
    stale: float = 0.0


def _stored(reports: list[Sent]) -> Reports:
    return reports_of(
        [1000 * each.at for each in reports],
        [
            Report(
                step=each.step,
                learner_wait_frac=each.learner_waits,
                collector_wait_frac=each.collector_waits,
                stale_frac=each.stale,
            )
            for each in reports
        ],
    )


_reports = st.lists(
    st.tuples(
        st.integers(-10, _WINDOW),
        st.integers(0, 9),
        *(st.sampled_from(_FRACTIONS) for _ in range(3)),
    ),
    max_size=8,
    unique_by=lambda each: each[0],
).map(lambda found: [Sent(*each) for each in sorted(found)])


def _state_at(timeline: list[Object], second: int) -> State:
    """The state in the second that begins then, read entry by entry."""
    phases = [each for each in timeline if each["kind"] == "phase"]
    state = State.NOT_KNOWN
    for number, entry in enumerate(phases):
        if 1000 * second >= entry["at"]:
            following = phases[number + 1 : number + 2]
            is_whole = all(each["before"] == entry["phase"] for each in following)
            state = _PHASES[entry["phase"]] if is_whole else State.NOT_KNOWN
    for entry in timeline:
        is_after = 1000 * second >= entry["at"]
        if entry["kind"] == "deleted" and is_after:
            return State.NOT_KNOWN
        if entry["kind"] == "gap" and not is_after and 1000 * second >= entry["from"]:
            return State.NOT_KNOWN
    return state


def _uses_at(states: list[State], reports: list[Sent], second: int, task: str) -> dict[Use, float]:
    """The uses in the second that begins then, as the documentation defines them."""
    state = states[second]
    if state is not State.RUNNING:
        return {_SIMPLE[state]: 1.0}
    first = last = second
    while first > 0 and states[first - 1] is State.RUNNING:
        first -= 1
    while last + 1 < len(states) and states[last + 1] is State.RUNNING:
        last += 1
    inside = [each for each in reports if first < each.at <= last + 1]
    if not inside:
        return {Use.TRAINING: 1.0}
    report = next((each for each in inside if each.at > second), inside[-1])
    waits = report.collector_waits if task == "collector" else report.learner_waits
    stale = (1 - waits) * report.stale if task == "collector" else 0.0
    return {Use.WAITING: waits, Use.STALE: stale, Use.TRAINING: 1 - waits - stale}


@given(pods=_pods, timelines=st.fixed_dictionaries({each: _timelines() for each in "abcd"}))
@pytest.mark.proves("history.md#usage/*")
def test_sums_equal_a_count_of_every_second(
    pods: list[Held], timelines: dict[str, list[Object]]
) -> None:
    jobs = {
        name: Job(namespace="rl", name=name, spans=spans(each, 1000 * _WINDOW))
        for name, each in timelines.items()
    }
    for by in (By.JOB, By.NODE, By.TASK):
        counted: dict[str, Counter[State]] = {}
        for pod in pods:
            name = {By.JOB: f"rl/{pod.job}", By.NODE: pod.node, By.TASK: pod.task}[by]
            sums = counted.setdefault(name, Counter())
            for second in range(pod.since // 1000, pod.until // 1000):
                sums[_state_at(timelines[pod.job], second)] += pod.gpus
        found = usage(pods, by, jobs)
        assert {
            name: {state: time / 1000 for state, time in each.by_state.items() if time}
            for name, each in found.items()
        } == {name: {key: n for key, n in each.items() if n} for name, each in counted.items()}
        assert sum(each.gpu_time for each in found.values()) == total(pods, jobs).gpu_time


@given(pods=_pods, timeline=_timelines(), reports=_reports)
def test_uses_equal_a_count_of_every_second(
    pods: list[Held], timeline: list[Object], reports: list[Sent]
) -> None:
    timeline = [
        each for each in timeline if each.get("phase") not in ("Restarting", "Rescheduling")
    ]
    known = spans(timeline, 1000 * _WINDOW)
    states = [_state_at(timeline, second) for second in range(_WINDOW)]
    joined: list[Span] = []
    for each in known:
        if joined and joined[-1].until == each.since and joined[-1].state is each.state:
            joined[-1] = Span(since=joined[-1].since, until=each.until, state=each.state)
        else:
            joined.append(each)
    stored = _stored(reports)
    jobs = {each: Job(namespace="rl", name=each, spans=joined, reports=stored) for each in "abcd"}
    found = total(pods, jobs)
    uses = found.by_use()
    counted: defaultdict[Use, float] = defaultdict(float)
    for pod in pods:
        for second in range(pod.since // 1000, pod.until // 1000):
            for use, part in _uses_at(states, reports, second, pod.task).items():
                counted[use] += part * pod.gpus * 1000
    assert sum(uses.values()) == found.gpu_time
    for use in Use:
        assert abs(uses[use] - counted[use]) <= 0.001 * found.gpu_time


def test_work_that_a_failure_undid_is_lost() -> None:
    known = [
        Span(since=0, until=1_000_000, state=State.RUNNING),
        Span(since=1_000_000, until=1_100_000, state=State.REPLACING),
        Span(since=1_100_000, until=2_000_000, state=State.RUNNING),
    ]
    reports = [Sent(at=at, step=at / 10) for at in range(100, 1000, 100)]
    resumed = [*reports, Sent(at=1200, step=61.0), Sent(at=1300, step=70.0)]
    pod = Held(job="a", node="n", task="worker", kind="", gpus=2, since=0, until=2_000_000)

    def lost(seen: list[Sent]) -> float:
        jobs = {"a": Job(namespace="rl", name="a", spans=known, reports=_stored(seen))}
        return total([pod], jobs).by_use()[Use.LOST] / 1000

    # The report of step 60 came at 600.
    assert lost(resumed) == 2 * (100 + 400)
    assert lost([*reports, Sent(at=1200, step=90.0)]) == 2 * 100
    assert lost([*reports, Sent(at=1200, step=0.0)]) == 2 * (100 + 1000)
    assert lost(reports) == 2 * 100


@given(
    since=st.integers(0, 2 * 10**9),
    seconds=st.integers(0, 4 * 10**7),
)
def test_months_add_up_to_the_window(since: int, seconds: int) -> None:
    found = list(months(1000 * since, 1000 * (since + seconds)))
    assert sum(last - first for _, first, last in found) == 1000 * seconds
    assert [first for _, first, _ in found[1:]] == [last for _, _, last in found[:-1]]
    assert len({name for name, _, _ in found}) == len(found)


@given(pods=_pods)
def test_the_rows_of_months_add_up_to_the_total(pods: list[Held]) -> None:
    jobs = {each: Job(namespace="rl", name=each) for each in "abcd"}
    both = [*clipped(pods, 0, 30_000), *clipped(pods, 30_000, 60_000)]
    assert total(both, jobs).gpu_time == total(pods, jobs).gpu_time


def _query(**values: str) -> Query:
    return query_of({"since": "2026-01-01T00:00:00Z", **values}, T0)


def test_the_answer_has_prices_and_groups_of_queues() -> None:
    jobs = {
        "a": Job(namespace="rl", name="a", queue="gpus", sweep="lr"),
        "b": Job(namespace="rl", name="b"),
    }
    hour = 3600
    pods = [_held(0, "a", 2, 0, hour), _held(1, "a", 1, 0, hour), _held(0, "b", 1, 0, hour)]
    answer = answer_of(
        _query(by="queue"), pods, jobs, Prices(label="gpu", hourly={"a100": 2.5, "h100": 7.0})
    )
    assert answer["usage"] == [
        {
            **{"queue": "rl/gpus", "jobs": 1, "pods": 2, "podHours": 2.0, "gpuHours": 3.0},
            **{"cost": 5.0, "unpricedGpuHours": 1.0},
        },
        {
            **{"queue": "", "jobs": 1, "pods": 1, "podHours": 1.0, "gpuHours": 1.0},
            **{"cost": 2.5, "unpricedGpuHours": 0.0},
        },
    ]
    assert answer["total"]["cost"] == 7.5
    sweeps = answer_of(_query(by="sweep"), pods, jobs, Prices())["usage"]
    assert [each["sweep"] for each in sweeps] == ["rl/lr", ""]
    assert "cost" not in sweeps[0]


@pytest.mark.parametrize(
    "values",
    [
        {"by": "colour"},
        {"split": "all"},
        {"every": "day"},
        {"since": "yesterday"},
        {"since": "2001-01-01T00:00:00Z"},
        {"until": "2025-01-01T00:00:00Z"},
        {"colour": "red"},
        {"namespace": "a b"},
    ],
)
def test_a_bad_query_of_usage_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(Malformed):
        _query(**values)


def test_a_query_of_usage_is_read() -> None:
    found = _query(by="user", split="phases,useful", every="month", namespace="rl")
    since = T0 - 12 * 3_600_000
    assert found == Query(
        asked=Asked(since=since, until=T0, by=By.USER, namespace="rl", phases=True, useful=True),
        is_monthly=True,
    )


@pytest.mark.parametrize(
    ("who", "name"),
    [
        ("ann (kubectl)", "ann"),
        ("pod x-learner-0 (di-server)", "pod x-learner-0"),
        ("kubectl", ""),
        ("ann (kubectl) (di)", ""),
        ("ann (kubectl (di))", ""),
    ],
)
def test_an_ambiguous_author_is_not_known(who: str, name: str) -> None:
    assert user_of(who) == name


def test_shares_of_a_report_are_within_bounds() -> None:
    report = Report(learner_wait_frac=1.5, stale_frac=-1.0, collector_wait_frac=float("nan"))
    found = reports_of([1], [report])
    assert (found.learner_waits, found.stale, found.collector_waits) == ([1.0], [0.0], [0.0])


def test_reports_are_put_in_order_of_time() -> None:
    found = reports_of([2, 3, 1], [Report(step=each) for each in (2.0, 3.0, 1.0)])
    assert (found.at, found.step) == ([1, 2, 3], [1.0, 2.0, 3.0])
