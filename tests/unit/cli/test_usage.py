"""di usage: GPU-hours from the placements of the history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_cli.access.history import History
from di_cli.actions import usage as kept_usage
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.session import Session
from di_cli.views.usage import By, Known, State, held, millis, spans, total, usage, user
from di_history.rest.app import _LONGEST_SPAN
from di_history.store.reader import MOST_PLACEMENTS
from tests.fakes.history import Service, answering
from tests.unit.cli.conftest import Di
from tests.unit.cli.installation import NOW

Object = dict[str, Any]
_START = datetime(2026, 1, 1, tzinfo=UTC)
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


@pytest.fixture
def service(di: Di, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with answering() as found:
        monkeypatch.setenv("DI_HISTORY_URL", found.url)
        monkeypatch.setattr(Session, "now", lambda _: NOW)
        yield found


def _at(seconds: float) -> str:
    return (_START + timedelta(seconds=seconds)).isoformat()


def _ms(seconds: float) -> int:
    found = millis(_at(seconds))
    assert found is not None
    return found


def _row(number: int, job: str, gpus: int, first: float, last: float | None) -> Object:
    return {
        "podUid": f"p{number}",
        "job": f"uid-{job}",
        "name": job,
        "namespace": "rl" if job < "c" else "other",
        "node": f"gpu-{number % 2}",
        "task": "learner",
        "gpus": gpus,
        "since": _at(first),
        **({} if last is None else {"until": _at(last)}),
    }


_rows = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.integers(0, 8),
        st.integers(-20, _WINDOW + 20),
        st.none() | st.integers(0, 40),
    ),
    max_size=12,
).map(
    lambda found: [
        _row(number, job, gpus, first, None if lasts is None else first + lasts)
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
        found.append({"kind": "phase", "at": _at(at), "phase": following, "before": before})
        phase = following
        if draw(st.integers(0, 3)) == 0:
            since = at
            at += draw(st.integers(0, 10))
            found.append({"kind": "gap", "from": _at(since), "at": _at(at), "changed": []})
        at += draw(st.integers(0, 20))
    if draw(st.booleans()):
        found.append({"kind": "deleted", "at": _at(at)})
    return found


def _state_at(timeline: list[Object], second: int) -> State:
    """The state in the second that begins then, read entry by entry."""
    phases = [each for each in timeline if each["kind"] == "phase"]
    state = State.NOT_KNOWN
    for number, entry in enumerate(phases):
        if _ms(second) >= (millis(entry["at"]) or 0):
            following = phases[number + 1 : number + 2]
            is_whole = all(each["before"] == entry["phase"] for each in following)
            state = _PHASES[entry["phase"]] if is_whole else State.NOT_KNOWN
    for entry in timeline:
        is_after = _ms(second) >= (millis(entry["at"]) or 0)
        if entry["kind"] == "deleted" and is_after:
            return State.NOT_KNOWN
        if entry["kind"] == "gap" and not is_after and _ms(second) >= (millis(entry["from"]) or 0):
            return State.NOT_KNOWN
    return state


@given(rows=_rows, timelines=st.fixed_dictionaries({each: _timelines() for each in "abcd"}))
@pytest.mark.proves("history.md#usage/*")
def test_sums_equal_a_count_of_every_second(
    rows: list[Object], timelines: dict[str, list[Object]]
) -> None:
    placements = held(rows, _ms(0), _ms(_WINDOW))
    known = {
        f"uid-{job}": Known(spans=spans(each, _ms(_WINDOW))) for job, each in timelines.items()
    }
    for by, key in ((By.JOB, "name"), (By.NAMESPACE, "namespace"), (By.NODE, "node")):
        counted: dict[str, dict[State, int]] = {}
        for row in rows:
            last = _ms(_WINDOW) if "until" not in row else (millis(row["until"]) or 0)
            for second in range(_WINDOW):
                if (millis(row["since"]) or 0) <= _ms(second) < last:
                    name = f"{row['namespace']}/{row['name']}" if by is By.JOB else row[key]
                    sums = counted.setdefault(name, dict.fromkeys(State, 0))
                    sums[_state_at(timelines[row["name"]], second)] += row["gpus"]
        found = usage(placements, by, known)
        assert {
            name: {state: time / 1000 for state, time in each.by_state.items()}
            for name, each in found.items()
        } == counted
        assert sum(each.gpu_time for each in found.values()) == total(placements, known).gpu_time
        assert all(sum(each.by_state.values()) == each.gpu_time for each in found.values())


def _answer(rows: list[Object], most: int, query: Mapping[str, str]) -> list[Object]:
    """What di-history answers: the placements that began last, in order."""
    since, until = millis(query["since"]), millis(query["until"])
    assert since is not None
    assert until is not None
    assert 0 < until - since <= _LONGEST_SPAN
    meant = [
        each
        for each in rows
        if (millis(each["since"]) or 0) < until
        and ("until" not in each or (millis(each["until"]) or 0) > since)
    ]
    meant.sort(key=lambda each: (-(millis(each["since"]) or 0), each["podUid"]))
    return meant[:most][::-1]


_DAY = 24 * 3600
_HISTORY = History(server="", token="", account="")


def _serve(monkeypatch: pytest.MonkeyPatch, rows: list[Object], most: int) -> list[Object]:
    """Answer from these placements; return the list of queries."""
    asked: list[Object] = []

    def get(_: History, path: str, query: Mapping[str, str], __: str) -> bytes:
        assert path == "/placements"
        asked.append(dict(query))
        return json.dumps({"placements": _answer(rows, most, query)}).encode()

    monkeypatch.setattr(History, "get", get)
    monkeypatch.setattr(kept_usage, "MOST_PLACEMENTS", most)
    return asked


@given(
    rows=st.lists(
        st.tuples(st.integers(-50, 100), st.none() | st.integers(0, 60)),
        max_size=40,
        unique_by=lambda row: row[0],
    ),
    most=st.integers(2, 7),
)
def test_all_placements_of_months_are_read_once(
    rows: list[tuple[int, int | None]], most: int
) -> None:
    kept = [
        _row(
            number,
            "a",
            1,
            first * _DAY,
            None if days is None else (first + days) * _DAY,
        )
        for number, (first, days) in enumerate(rows)
    ]
    since, until = _ms(0), _ms(90 * _DAY)
    with pytest.MonkeyPatch.context() as patch:
        _serve(patch, kept, most)
        found = kept_usage.placements(_HISTORY, None, since, until, account_of="rl")
    clipped = held(found, since, until)
    assert len({each["podUid"] for each in found}) == len(found)
    assert sorted(map(repr, clipped)) == sorted(map(repr, held(kept, since, until)))


def test_the_bounds_of_an_answer_are_those_of_di_history() -> None:
    assert (kept_usage.MOST_PLACEMENTS, kept_usage.LONGEST) == (MOST_PLACEMENTS, _LONGEST_SPAN)


def test_too_many_pods_of_one_moment_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _serve(monkeypatch, [_row(number, "a", 1, 5, None) for number in range(4)], 3)
    with pytest.raises(CommandError) as refused:
        kept_usage.placements(_HISTORY, None, _ms(0), _ms(60), account_of="rl")
    assert refused.value.what == "3 pods or more began at the same time"
    assert refused.value.where == "2026-01-01T00:00:05.000Z"


def _keep(service: Service) -> None:
    """Two jobs of the last three hours, one of them deleted."""
    service.answers["/v1/placements"] = {
        "placements": [
            _kept("grpo-7b", "learner", 4, "09:00", None),
            _kept("grpo-7b", "collector", 0, "09:00", "11:00"),
            _kept("cartpole", "learner", 1, "09:30", "11:00"),
        ]
    }
    grpo = [
        {"kind": "phase", "at": "2026-03-01T09:00:00Z", "phase": "Starting", "before": "Pending"},
        {"kind": "phase", "at": "2026-03-01T09:15:00Z", "phase": "Running", "before": "Starting"},
    ]
    cartpole = [
        {"kind": "phase", "at": "2026-03-01T09:30:00Z", "phase": "Running", "before": "Starting"},
        {"kind": "gap", "from": "2026-03-01T10:00:00Z", "at": "2026-03-01T10:30:00Z"},
        {"kind": "phase", "at": "2026-03-01T10:45:00Z", "phase": "Failed", "before": "Running"},
    ]
    by_ann = [{"number": 1, "who": "ann@example.com (kubectl)"}, {"number": 2, "who": "bob (di)"}]
    service.answers["/v1/jobs/rl/grpo-7b"] = {"timeline": grpo, "revisions": by_ann}
    service.answers["/v1/jobs/rl/cartpole"] = {"timeline": cartpole}


def _kept(job: str, task: str, gpus: int, first: str, last: str | None) -> Object:
    return {
        "pod": f"{job}-{task}-0",
        "podUid": f"{job}-{task}",
        "job": f"uid-{job}",
        "name": job,
        "namespace": "rl",
        "node": "gpu-1",
        "task": task,
        "gpus": gpus,
        "since": f"2026-03-01T{first}:00.000Z",
        **({"until": f"2026-03-01T{last}:00.000Z"} if last else {}),
    }


@pytest.mark.proves("cli.md#usage")
def test_usage_shows_the_gpu_hours_of_each_job(di: Di, service: Service) -> None:
    _keep(service)
    said = di("usage", "-n", "rl", "--since", "12h")
    assert (said.code, said.err) == (0, "")
    assert said.lines == [
        "JOB          JOBS  PODS  POD-HOURS  GPU-HOURS",
        "rl/grpo-7b   1     2     5.00       12.00",
        "rl/cartpole  1     1     1.50       1.50",
        "total        2     3     6.50       13.50",
    ]
    assert service.asked == [
        (
            "/v1/placements?namespace=rl&since=2026-03-01T00%3A00%3A00.000Z"
            "&until=2026-03-01T12%3A00%3A00.000Z",
            "Bearer secret",
        )
    ]


@pytest.mark.proves("history.md#usage/*", "cli.md#usage")
def test_usage_divides_gpu_hours_by_the_phases_of_jobs(di: Di, service: Service) -> None:
    _keep(service)
    said = di("usage", "-n", "rl", "--since", "12h", "--phases")
    assert [line.split() for line in said.lines[1:]] == [
        ["rl/grpo-7b", "1", "2", "5.00", "12.00", "11.00", "1.00", "0.00", "0.00", "0.00", "0.00"],
        ["rl/cartpole", "1", "1", "1.50", "1.50", "0.75", "0.00", "0.00", "0.00", "0.25", "0.50"],
        ["total", "2", "3", "6.50", "13.50", "11.75", "1.00", "0.00", "0.00", "0.25", "0.50"],
    ]
    assert [path for path, _ in service.asked[1:]] == [
        f"/v1/jobs/rl/{job}?uid=uid-{job}&kinds=phase%2Cgap%2Cdeleted"
        for job in ("grpo-7b", "cartpole")
    ]


@pytest.mark.proves("cli.md#usage")
def test_usage_by_user_shows_who_created_the_jobs(di: Di, service: Service) -> None:
    _keep(service)
    words = ("usage", "-n", "rl", "--since", "12h", "--by", "user")
    assert di(*words).lines == [
        "USER             JOBS  PODS  POD-HOURS  GPU-HOURS",
        "ann@example.com  1     2     5.00       12.00",
        "not known        1     1     1.50       1.50",
        "total            2     3     6.50       13.50",
    ]
    groups = json.loads(di(*words, "-o", "json").out)["usage"]
    assert [each["user"] for each in groups] == ["ann@example.com", None]
    assert di(*words, "-o", "csv").lines[2] == ",1,1,1.5,1.5"


@pytest.mark.parametrize(
    ("number", "who", "name"),
    [
        (1, "ann (kubectl)", "ann"),
        (1, "pod x-learner-0 (di-server)", "pod x-learner-0"),
        (1, "kubectl", ""),
        (1, "ann (kubectl) (di)", ""),
        (1, "ann (kubectl (di))", ""),
        (2, "ann (kubectl)", ""),
    ],
)
def test_an_ambiguous_author_is_not_known(number: int, who: str, name: str) -> None:
    assert user([{"number": number, "who": who}]) == name


def test_the_phases_of_a_job_that_is_not_kept_are_not_known(di: Di, service: Service) -> None:
    _keep(service)
    del service.answers["/v1/jobs/rl/grpo-7b"]
    said = di("usage", "-n", "rl", "--since", "12h", "--phases", "-o", "json")
    found = json.loads(said.out)["usage"][0]
    assert (found["job"], found["gpuHours"], found["notKnown"]) == ("rl/grpo-7b", 12.0, 12.0)


@pytest.mark.proves("cli.md#usage")
def test_usage_is_written_as_csv_and_json(di: Di, service: Service) -> None:
    _keep(service)
    words = ("usage", "-A", "--since", "2h", "--by", "namespace")
    assert di(*words, "-o", "csv").lines == [
        "namespace,jobs,pods,podHours,gpuHours",
        "rl,2,3,4.0,9.0",
    ]
    assert service.asked[0][0].startswith("/v1/placements?since=")
    group = {"jobs": 2, "pods": 3, "podHours": 4.0, "gpuHours": 9.0}
    assert json.loads(di(*words, "-o", "json").out) == {
        "since": "2026-03-01T10:00:00Z",
        "until": "2026-03-01T12:00:00Z",
        "usage": [{"namespace": "rl", **group}],
        "total": group,
    }


def test_usage_without_placements_is_an_empty_answer(di: Di, service: Service) -> None:
    service.answers["/v1/placements"] = {"placements": []}
    said = di("usage", "-n", "rl")
    assert (said.code, said.out) == (
        0,
        "no pod of a job in namespace rl was on a node in that time\n",
    )
    assert di("usage", "-n", "rl", "-o", "csv").lines == ["job,jobs,pods,podHours,gpuHours"]


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("0", 0),
        ("31d", 1),
        ("62d1s", 3),
        pytest.param("9" * 400, 662, id="since-1970"),
    ],
)
def test_the_time_of_usage_has_any_length(
    di: Di, monkeypatch: pytest.MonkeyPatch, words: str, asked: int
) -> None:
    found = _serve(monkeypatch, [], 10)
    assert di("usage", "-n", "rl", "--since", words).code == 0
    assert len(found) == asked


def test_usage_reports_a_refusal_of_the_history(di: Di, service: Service) -> None:
    _keep(service)
    service.status = 403
    assert di("usage", "-n", "rl").code == ExitCode.NOT_ALLOWED
    assert di("usage", "--since", "yesterday").code == ExitCode.USAGE
    assert di("usage", "--by", "colour").code == ExitCode.USAGE
