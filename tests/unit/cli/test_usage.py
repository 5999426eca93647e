"""di usage: tables of the sums of di-history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from di_cli.exit_codes import ExitCode
from di_cli.session import Session
from di_cli.views.usage import By, Split
from di_history.rest import usage as rest
from di_history.usage import sums
from tests.fakes.history import Service, answering
from tests.unit.cli.conftest import Di
from tests.unit.cli.installation import NOW

Object = dict[str, Any]


@pytest.fixture
def service(di: Di, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with answering() as found:
        monkeypatch.setenv("DI_HISTORY_URL", found.url)
        monkeypatch.setattr(Session, "now", lambda _: NOW)
        yield found


def _sums(jobs: int, pods: int, hours: float, gpu_hours: float, **others: object) -> Object:
    return {"jobs": jobs, "pods": pods, "podHours": hours, "gpuHours": gpu_hours, **others}


def _phases(running: float, starting: float, ended: float, unknown: float) -> Object:
    return {
        **{"running": running, "starting": starting, "pending": 0.0, "replacing": 0.0},
        **{"ended": ended, "notKnown": unknown},
    }


def _uses(training: float, waiting: float, stale: float, lost: float) -> Object:
    return {
        **{"training": training, "waiting": waiting, "stale": stale, "starting": 0.0},
        **{"lost": lost, "ended": 0.0, "notKnown": 0.0},
    }


def _keep(service: Service, by: str = "job", **of_total: object) -> None:
    """Two groups of the last three hours."""
    service.answers["/v1/usage"] = {
        "usage": [
            {by: "rl/grpo-7b", **_sums(1, 2, 5.0, 12.0, phases=_phases(11.0, 1.0, 0.0, 0.0))},
            {by: "rl/cartpole", **_sums(1, 1, 1.5, 1.5, phases=_phases(0.75, 0.0, 0.25, 0.5))},
        ],
        "total": _sums(2, 3, 6.5, 13.5, phases=_phases(11.75, 1.0, 0.25, 0.5), **of_total),
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
            "/v1/usage?by=job&since=2026-03-01T00%3A00%3A00Z"
            "&until=2026-03-01T12%3A00%3A00Z&split=&namespace=rl",
            "Bearer secret",
        )
    ]


@pytest.mark.proves("history.md#usage/*", "cli.md#usage")
def test_usage_divides_gpu_hours_by_the_phases_of_jobs(di: Di, service: Service) -> None:
    _keep(service)
    said = di("usage", "-n", "rl", "--since", "12h", "--phases")
    assert said.lines[0].split()[5:] == [
        *("RUNNING", "STARTING", "PENDING", "REPLACING", "ENDED", "NOT", "KNOWN")
    ]
    assert [line.split() for line in said.lines[1:]] == [
        ["rl/grpo-7b", "1", "2", "5.00", "12.00", "11.00", "1.00", "0.00", "0.00", "0.00", "0.00"],
        ["rl/cartpole", "1", "1", "1.50", "1.50", "0.75", "0.00", "0.00", "0.00", "0.25", "0.50"],
        ["total", "2", "3", "6.50", "13.50", "11.75", "1.00", "0.00", "0.00", "0.25", "0.50"],
    ]
    assert "split=phases" in service.asked[0][0]


@pytest.mark.proves("history.md#useful-share/*", "cli.md#usage")
def test_usage_shows_the_useful_share_and_the_cost(di: Di, service: Service) -> None:
    found = _sums(3, 6, 10.0, 40.0, useful=_uses(24.0, 8.0, 4.0, 4.0), usefulShare=0.6)
    priced = {**found, "cost": 100.0, "unpricedGpuHours": 0.0}
    service.answers["/v1/usage"] = {"usage": [{"sweep": "rl/lr", **priced}], "total": priced}
    said = di("usage", "-A", "--by", "sweep", "--useful")
    assert said.lines == [
        "SWEEP  JOBS  PODS  POD-HOURS  GPU-HOURS  TRAINING  WAITING  STALE  STARTING  LOST  ENDED"
        "  NOT KNOWN  USEFUL  COST    UNPRICED",
        "rl/lr  3     6     10.00      40.00      24.00     8.00     4.00   0.00      4.00  0.00"
        "   0.00       60%     100.00  0.00",
    ]
    assert "by=sweep" in service.asked[0][0]
    assert "namespace=" not in service.asked[0][0]


def test_both_divisions_have_names_of_their_own(di: Di, service: Service) -> None:
    both = {"phases": _phases(1.0, 2.0, 3.0, 4.0), "useful": _uses(1.0, 0.0, 0.0, 0.0)}
    found = _sums(1, 1, 10.0, 10.0, **both, usefulShare=0.1)
    service.answers["/v1/usage"] = {"usage": [{"job": "rl/x", **found}], "total": found}
    said = di("usage", "-n", "rl", "--phases", "--useful", "-o", "csv")
    assert said.lines[0] == (
        "job,jobs,pods,podHours,gpuHours,running,phases.starting,pending,replacing,phases.ended,"
        "phases.notKnown,training,waiting,stale,useful.starting,lost,useful.ended,"
        "useful.notKnown,usefulShare"
    )
    assert said.lines[1].split(",")[6] == "2.0"


@pytest.mark.proves("cli.md#usage")
def test_usage_of_months_is_written_as_csv(di: Di, service: Service) -> None:
    march = {"month": "2026-03", "user": "ann", **_sums(1, 1, 2.0, 4.0)}
    none = {"month": "2026-03", "user": "", **_sums(1, 1, 1.0, 1.0)}
    service.answers["/v1/usage"] = {"usage": [march, none], "total": _sums(2, 2, 3.0, 5.0)}
    words = ("usage", "-n", "rl", "--since", "60d", "--by", "user", "--monthly")
    assert di(*words, "-o", "csv").lines == [
        "month,user,jobs,pods,podHours,gpuHours",
        "2026-03,ann,1,1,2.0,4.0",
        "2026-03,,1,1,1.0,1.0",
    ]
    assert "every=month" in service.asked[0][0]
    assert di(*words).lines == [
        "MONTH    USER       JOBS  PODS  POD-HOURS  GPU-HOURS",
        "2026-03  ann        1     1     2.00       4.00",
        "2026-03  not known  1     1     1.00       1.00",
        "total               2     2     3.00       5.00",
    ]


@pytest.mark.proves("cli.md#usage")
def test_usage_is_written_as_json(di: Di, service: Service) -> None:
    _keep(service, "user")
    assert json.loads(di("usage", "-A", "--since", "2h", "--by", "user", "-o", "json").out) == {
        "since": "2026-03-01T10:00:00Z",
        "until": "2026-03-01T12:00:00Z",
        "usage": [
            {"user": "rl/grpo-7b", **_sums(1, 2, 5.0, 12.0)},
            {"user": "rl/cartpole", **_sums(1, 1, 1.5, 1.5)},
        ],
        "total": _sums(2, 3, 6.5, 13.5),
    }


def test_usage_without_placements_is_an_empty_answer(di: Di, service: Service) -> None:
    service.answers["/v1/usage"] = {"usage": [], "total": _sums(0, 0, 0.0, 0.0)}
    said = di("usage", "-n", "rl")
    assert (said.code, said.out) == (
        0,
        "no pod of a job in namespace rl was on a node in that time\n",
    )
    assert di("usage", "-n", "rl", "-o", "csv").lines == ["job,jobs,pods,podHours,gpuHours"]


def test_usage_reports_a_refusal_of_the_history(di: Di, service: Service) -> None:
    _keep(service)
    service.status = 403
    assert di("usage", "-n", "rl").code == ExitCode.NOT_ALLOWED
    assert di("usage", "--since", "yesterday").code == ExitCode.USAGE
    assert di("usage", "--by", "colour").code == ExitCode.USAGE


@pytest.mark.usefixtures("service")
def test_a_history_that_is_older_than_the_command_is_named(di: Di) -> None:
    said = di("usage", "-n", "rl")
    assert said.code == ExitCode.FAILED
    assert "it is older than this di" in said.err


def test_groups_and_divisions_are_those_of_di_history() -> None:
    assert [*By] == [*sums.By]
    assert [*Split] == [*rest.Split]
