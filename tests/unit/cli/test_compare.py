"""di compare, against stand-ins of the API server and di-history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from di_cli.access.history import History
from di_cli.exit_codes import ExitCode
from di_cli.export.kept import Kept, read_kept
from di_cli.session import Session
from di_orchestrator import jobs
from tests.fakes.history import Service, answering
from tests.unit.cli.conftest import JOBS, Di, job

Object = dict[str, Any]
DOCUMENT = Path(__file__).resolve().parents[3] / "docs/reference/cli.md"
NO_HISTORY = "note: di-history was not read (--server none): each job has only its last report here"


@pytest.fixture
def service(di: Di, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with answering() as found:
        monkeypatch.setenv("DI_HISTORY_URL", found.url)
        yield found


@pytest.mark.proves("cli.md#comparing")
def test_jobs_are_compared_as_the_document_shows(di: Di, service: Service) -> None:
    _four(di, service)
    said = di("compare", "ppo-1", "ppo-2", "ppo-3", "sac-1", "-n", "rl")
    assert (said.code, said.err) == (0, "")
    shown = f"$ di compare ppo-1 ppo-2 ppo-3 sac-1\n{said.out}"
    assert shown in DOCUMENT.read_text(), shown
    assert ("/v1/jobs/rl/ppo-1/series?uid=uid-ppo-1", "Bearer secret") in service.asked


@pytest.mark.proves("cli.md#comparing")
def test_a_comparison_as_csv_has_a_column_for_each_job(di: Di, service: Service) -> None:
    _four(di, service)
    said = di("compare", "ppo-1", "sac-1", "-n", "rl", "-o", "csv")
    assert said.lines == ["step,ppo-1,sac-1", "0,10,20", "1000,190,120", "2000,180,220"]
    by_time = di("compare", "ppo-1", "sac-1", "-n", "rl", "-o", "csv", "--by", "time")
    assert by_time.lines == ["seconds,ppo-1,sac-1", "0,10,20", "600,190,120", "1200,180,220"]


@pytest.mark.proves("cli.md#comparing")
def test_jobs_are_compared_by_environment_steps(di: Di, service: Service) -> None:
    _four(di, service)
    said = di("compare", "ppo-1", "sac-1", "-n", "rl", "-o", "csv", "--by", "env-step")
    assert said.lines == ["envStep,ppo-1,sac-1", "0,10,20", "64000,190,120", "128000,180,220"]
    table = di("compare", "sac-1", "ppo-1", "-n", "rl", "--by", "env-step")
    assert table.lines[1].split()[:5] == ["sac-1", "3", "220", "220", "128000"]
    without = di("compare", "ppo-1", "ppo-3", "-n", "rl", "--by", "env-step")
    assert "ppo-3 has values without environment steps; --by time has all of them" in without.err


def test_a_comparison_as_json_has_jobs_groups_and_differences(di: Di, service: Service) -> None:
    _four(di, service)
    said = di("compare", "ppo-1", "ppo-2", "-n", "rl", "-o", "json", "--metric", "Loss")
    found = json.loads(said.out)
    assert found["jobs"][0] == {
        "name": "ppo-1",
        "metric": "loss",
        "source": "history",
        "values": 3,
        "last": 0.25,
        "best": 1.0,
        "bestAt": 0.0,
        "meanOfLastTenth": 0.25,
        "durationSeconds": 3600.0,
        "seeds": ["1"],
    }
    assert found["groups"] == [
        {
            "jobs": ["ppo-1", "ppo-2"],
            "mean": 0.25,
            "interquartileMean": 0.25,
            "interval95": [0.25, 0.25],
        }
    ]
    assert found["differences"]["seed"] == {"ppo-1": "1", "ppo-2": "2"}
    lowest = di("compare", "ppo-1", "sac-1", "-n", "rl", "--metric", "loss", "--lowest")
    assert lowest.lines[1].split()[:5] == ["ppo-1", "3", "0.25", "0.25", "2000"]


@pytest.mark.proves("cli.md#comparing")
def test_without_a_history_the_last_reports_are_compared_with_a_note(di: Di) -> None:
    for name, value in (("a", 3.0), ("b", 4.0)):
        _put(di, name, "ppo", "1", value)
        di.pod(name, "learner", 0, 0)
    said = di("compare", "a", "b", "-n", "rl", "--server", "none")
    assert said.err.splitlines() == [NO_HISTORY]
    assert [line.split()[:4] for line in said.lines[1:3]] == [
        ["a", "1", "3", "3"],
        ["b", "1", "4", "4"],
    ]
    assert said.lines[-1] == "the jobs have the same spec, and ran on the same nodes"


def test_an_unreachable_history_is_noted_unless_its_address_was_given(
    di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DI_HISTORY_URL", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    for name in "ab":
        _put(di, name, "ppo", "1", 3.0)
    said = di("compare", "a", "b", "-n", "rl")
    assert said.code == 0
    assert said.err.startswith("note: di-history was not read (kubectl is not on the PATH")
    given = di("compare", "a", "b", "-n", "rl", "--server", "http://history.example")
    assert given.code == ExitCode.FAILED
    assert "https address alone" in given.err


@pytest.mark.proves("cli.md#comparing")
def test_a_deleted_job_is_compared_by_what_the_history_has(di: Di, service: Service) -> None:
    _four(di, service)
    di.world.remove(f"{JOBS}/sac-1")
    service.answers["/v1/jobs/rl/sac-1/revisions/2"] = {"spec": _spec("sac", "1")}
    said = di("compare", "ppo-1", "sac-1", "-n", "rl")
    assert (said.code, said.err) == (0, "")
    assert said.lines[2].split() == ["sac-1", "3", "220", "220", "2000", "220", "30m"]
    service.answers["/v1/jobs/rl/sac-1"] = {"job": {"name": "sac-1"}}
    assert di("compare", "ppo-1", "sac-1", "-n", "rl").err == (
        "note: di-history has no manifest of sac-1\n"
    )


def test_a_job_that_the_history_does_not_have_has_its_last_report(di: Di, service: Service) -> None:
    _four(di, service)
    _put(di, "new", "ppo", "4", 5.0)
    said = di("compare", "ppo-1", "new", "-n", "rl")
    assert said.err == "note: di-history does not have new: only its last report is compared\n"
    assert di("compare", "ppo-1", "absent", "-n", "rl").code == ExitCode.NOT_FOUND
    absent = di("compare", "ppo-1", "absent", "-n", "rl", "--server", "none")
    assert absent.code == ExitCode.NOT_FOUND


def test_four_jobs_are_read_at_once(
    di: Di, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    _four(di, service)
    begun = Barrier(4)

    def read(session: Session, history: History | None, name: str) -> Kept:
        # Each waits for the others, for ten times as long as an idle machine needs.
        begun.wait(60)
        return read_kept(session, history, name)

    monkeypatch.setattr("di_cli.actions.compare.read_kept", read)
    assert di("compare", "ppo-1", "ppo-2", "ppo-3", "sac-1", "-n", "rl").code == 0


def test_a_number_that_no_job_reports_is_refused_with_the_known_ones(
    di: Di, service: Service
) -> None:
    _four(di, service)
    said = di("compare", "ppo-1", "sac-1", "-n", "rl", "--metric", "entropy")
    assert said.code == ExitCode.FAILED
    assert said.err.splitlines() == [
        "error: no job has reported entropy",
        "  ppo-1 has not reported entropy; it has reported step, envSteps, ep_rew_mean, loss",
        "  sac-1 has not reported entropy; it has reported step, envSteps, ep_rew_mean",
        "  try: --metric NAME",
    ]
    one = di("compare", "ppo-1", "sac-1", "-n", "rl", "--metric", "loss")
    assert one.code == 0
    assert "sac-1 has not reported loss" in one.err


@pytest.mark.parametrize("names", [["a"], ["a", "a"], [f"job-{number}" for number in range(21)]])
def test_a_comparison_takes_two_to_twenty_jobs(di: Di, names: list[str]) -> None:
    said = di("compare", *names)
    assert said.code == ExitCode.USAGE
    assert "di compare takes 2 to 20 jobs" in said.err


def _four(di: Di, service: Service) -> None:
    """Three seeds of one program, and another program, with their histories."""
    returns = {
        "ppo-1": [10.0, 190.0, 180.0],
        "ppo-2": [12.0, 150.0, 200.0],
        "ppo-3": [9.0, 100.0, 160.0],
        "sac-1": [20.0, 120.0, 220.0],
    }
    for name, values in returns.items():
        program, _, seed = name.partition("-")
        _put(di, name, program, seed)
        samples = [
            {
                "at": f"2026-03-01T09:{number}0:00Z",
                "values": {
                    "step": number * 1000,
                    **({"envSteps": number * 64_000} if name != "ppo-3" else {}),
                    "ep_rew_mean": value,
                    **({"loss": [1.0, 0.5, 0.25][number]} if program == "ppo" else {}),
                },
            }
            for number, value in enumerate(values)
        ]
        service.answers[f"/v1/jobs/rl/{name}/series"] = {"samples": samples}
        since = "2026-03-01T09:00:00.000Z"
        service.answers[f"/v1/jobs/rl/{name}"] = {
            "job": {"name": name, "completed": "2026-03-01T09:30:00.000Z"},
            "revisions": [{"number": 1}, {"number": 2}],
            "placements": [{"pod": f"{name}-learner-0", "node": f"gpu-{seed}", "since": since}],
        }


def _put(di: Di, name: str, program: str, seed: str, value: float | None = None) -> None:
    times = {"startTime": "2026-03-01T09:00:00Z", "completionTimestamp": "2026-03-01T10:00:00Z"}
    report = {} if value is None else {"ep_rew_mean": value}
    progress = {"step": 1, "reportedAt": "2026-03-01T09:30:00Z"} if report else {}
    found = job(name, "Succeeded", **times, profilings=report, progress=progress)
    di.world.put(f"{JOBS}/{name}", {**found, "spec": _spec(program, seed)})


def _spec(program: str, seed: str) -> Object:
    command = ["python3", f"{program}.py", "--seed", seed]
    container = {"name": "di-container", "image": "example/rl:7", "command": command}
    task = {"type": "learner", "template": {"spec": {"containers": [container]}}}
    return {"tasks": [task], "code": {"configMap": f"{program}-{seed}-code", "sha256": "5" * 64}}


@pytest.mark.proves("from-python.md#comparing-jobs")
def test_a_comparison_from_python_is_that_of_the_command(di: Di, service: Service) -> None:
    _four(di, service)
    names = ("ppo-1", "ppo-2", "sac-1")
    found = jobs.compare(*names, namespace="rl")
    assert f"{found}\n" == di("compare", *names, "-n", "rl").out
    assert found.csv() == di("compare", *names, "-n", "rl", "-o", "csv").out
    everything = json.loads(di("compare", *names, "-n", "rl", "-o", "json").out)
    assert [*found.results.values()] == everything["jobs"]
    assert (found.groups, found.differences) == (everything["groups"], everything["differences"])
    assert found.notes == []
    shown = found._repr_html_()
    assert "<td>ppo-1 +1</td>" in shown
    assert shown.count("<polyline") == 3
    assert "return: from 10 to 220, step 0 to 2000" in shown
    assert [each in shown for each in ("</svg> ppo-1 +1<", "</svg> sac-1<")] == [True, True]
    assert repr(found) == "<comparison of ppo-1, ppo-2, sac-1 by return>"


@pytest.mark.proves("from-python.md#comparing-jobs")
def test_a_comparison_from_python_without_a_history_has_a_note(
    di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DI_HISTORY_URL", raising=False)
    for name, value in (("a", 3.0), ("b", 4.0)):
        _put(di, name, "ppo", "1", value)
    found = jobs.compare("a", "b", namespace="rl")
    assert found.results["b"]["last"] == 4.0
    assert found.notes == ["di-history was not read: each job has only its last report here"]
    assert "<svg" not in found._repr_html_(), "a value is no curve"
    with pytest.raises(jobs.BadCall, match="takes 2 to 20 jobs, not 1"):
        jobs.compare("a", namespace="rl")
    with pytest.raises(jobs.BadCall, match="by='hour' is not one of step, env-step, time"):
        jobs.compare("a", "b", by="hour", namespace="rl")
    with pytest.raises(jobs.NotFound, match="absent"):
        jobs.compare("a", "absent", namespace="rl")
