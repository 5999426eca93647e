"""The output of a run, and the files that it leaves."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from di_kube.config import load_config
from di_local import logs, runs
from di_local.api.objects import Change
from di_local.logs import Follower, LineReader, Times
from di_local.screen import Screen, log_line, log_lines, reported

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
JOB = {"metadata": {"name": "tiny", "namespace": "default"}}


def _said(screen: Screen, plural: str, after: Any) -> list[str]:
    return [line.plain.rstrip() for line in screen.lines(Change(1, plural, None, after))]


def _job(phase: str, ready: int, replicas: int) -> Any:
    spec = {"tasks": [{"name": "learner"}, {"name": "collector", "replicas": replicas}]}
    total = replicas + 1
    return {"spec": spec, "status": {"phase": phase, "readyReplicas": ready, "replicas": total}}


def test_each_phase_and_scaling_is_a_line() -> None:
    screen = Screen(elapsed=lambda: 61.5)
    assert _said(screen, "dijobs", _job("Starting", 0, 2)) == ["  1:01  Starting      0/3 ready"]
    assert _said(screen, "dijobs", _job("Starting", 0, 2)) == []
    assert _said(screen, "dijobs", _job("Running", 3, 4)) == [
        "  1:01  scaled        collector 2 -> 4",
        "  1:01  Running       3/5 ready",
    ]
    assert _said(screen, "dijobs", _job("Succeeded", 0, 4)) == ["  1:01  Succeeded"]


def test_reported_progress_is_shown_with_the_phase_and_periodically() -> None:
    now = 0.0
    screen = Screen(elapsed=lambda: now)

    def said(phase: str = "Running", **profilings: Any) -> list[str]:
        job = _job(phase, 0 if phase == "Succeeded" else 3, 2)
        return _said(
            screen, "dijobs", {**job, "status": {**job["status"], "profilings": profilings}}
        )

    assert said() == ["  0:00  Running       3/3 ready"]
    first: dict[str, Any] = {"step": 7, "totalSteps": 10_000, "learnerWaitFrac": 0.614}
    assert said(**first) == [
        "  0:00  Running       3/3 ready     step 7 of 10,000  learner waits 61%"
    ]
    now = 9.9
    assert said(learnerWaitFrac=0.5) == []
    now = 10.0
    assert said(learnerWaitFrac=0.4) == ["  0:10  Running       3/3 ready     learner waits 40%"]
    now = 30.0
    assert said(learnerWaitFrac=0.4) == []
    assert said("Succeeded", episodeReturn=487.25) == ["  0:30  Succeeded     return 487.2"]


@pytest.mark.parametrize("value", [None, "1", True, {}, []])
def test_a_report_of_another_type_is_not_shown(value: Any) -> None:
    keys = ("step", "totalSteps", "episodeReturn", "learnerWaitFrac")
    assert reported(dict.fromkeys(keys, value), has_collectors=True) == []


def test_env_steps_are_shown_for_programs_without_other_steps() -> None:
    counted = {"envSteps": 500, "maxEnvSteps": 1000}
    assert reported(counted, has_collectors=True) == ["env step 500 of 1,000"]
    assert reported({**counted, "step": 3}, has_collectors=True) == ["step 3"]


def test_a_job_without_collectors_does_not_wait_for_them() -> None:
    assert reported({"step": 3, "learnerWaitFrac": 0.55}, has_collectors=False) == ["step 3"]


def test_a_coordinators_scaling_is_shown_by_role() -> None:
    screen = Screen(elapsed=lambda: 0.0)

    def said(*roles: str) -> list[str]:
        replicas = [{"role": role} for role in roles]
        spec = {"coordinated": {"coordinator": {}, "collector": {}, "replicas": replicas}}
        return _said(screen, "dijobs", {"spec": spec})

    assert said() == []
    assert said("collector", "collector") == ["  0:00  scaled        collector 0 -> 2"]
    assert said("collector") == ["  0:00  scaled        collector 2 -> 1"]


def test_events_beyond_the_phase_are_a_line() -> None:
    screen = Screen(elapsed=lambda: 0.0)
    plain = {"type": "Normal", "reason": "JobRunning", "message": "3 pods ready"}
    assert _said(screen, "events", plain) == []
    other = {"type": "Normal", "reason": "PodsDeleted", "message": "deleted 2 pods"}
    assert _said(screen, "events", other) == ["  0:00  PodsDeleted   deleted 2 pods"]
    bad = {"type": "Warning", "reason": "JobRestarting", "message": "exit code 3"}
    assert _said(screen, "events", bad) == ["  0:00  JobRestarting  exit code 3"]


def test_logs_are_shown_by_line_as_they_grow(tmp_path: Path) -> None:
    said: list[tuple[str, str]] = []
    follower = Follower(
        tmp_path,
        Times(now=lambda: NOW),
        lambda pod, lines: said.extend((pod, line) for line in lines),
    )
    log = tmp_path / "tiny-learner-0" / "uid" / "di-container.log"
    log.parent.mkdir(parents=True)
    (log.parent / "di-container.handlers.log").write_text("of a probe\n")
    log.write_text("one\ntw")
    follower.look()
    assert said == [("tiny-learner-0", "one")]
    with log.open("a") as file:
        file.write("o\nthree\n")
    follower.look()
    follower.look()
    assert [line for _, line in said] == ["one", "two", "three"]


def test_a_long_log_is_shown_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_PART", 7)
    parts: list[Sequence[str]] = []
    follower = Follower(tmp_path, Times(now=lambda: NOW), lambda _, lines: parts.append(lines))
    log = tmp_path / "tiny-learner-0" / "uid" / "di-container.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"".join(b"line %d\r\n" % number for number in range(20)) + b"rest")
    follower.look()
    assert [line for part in parts for line in part] == [f"line {number}" for number in range(20)]
    assert max(map(len, parts)) == 1


def test_lines_of_a_pod_are_shown_as_each_one_would_be() -> None:
    lines = ["one", "bell \a", ""]
    for has_colours in (False, True):
        console = Console(
            file=io.StringIO(), color_system="standard" if has_colours else None, width=500
        )
        for line in lines:
            console.print(log_line("tiny-learner-0", 1, line), highlight=False, soft_wrap=True)
        assert isinstance(console.file, io.StringIO)
        shown = log_lines("tiny-learner-0", 1, lines, has_colours=has_colours)
        assert shown == console.file.getvalue()


def test_a_log_line_has_the_time_it_was_read(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    now = [NOW]
    times = Times(now=lambda: now[0])
    seen = []
    for text in ("one\n", "two\nthr", "ee\n"):
        with log.open("a") as file:
            file.write(text)
        times.look(log)
        now[0] += timedelta(seconds=1)
    for end, line in LineReader(log).lines():
        seen.append((line, (times.of(log, end) - NOW).total_seconds()))
    assert seen == [(b"one", 0.0), (b"two", 1.0), (b"three", 2.0)]


@pytest.mark.proves("local.md#where-things-are/kubeconfig")
def test_a_runs_kubeconfig_exists_until_the_run_ends(tmp_path: Path) -> None:
    directory = runs.new_directory(tmp_path, "tiny", NOW)
    run = runs.note(directory, JOB, url="http://127.0.0.1:1", token="secret", began=NOW)
    assert [each.name for each in runs.runs(tmp_path) if each.is_under_way] == [directory.name]
    assert run.pid == os.getpid()
    config = load_config(str(run.kubeconfig))
    assert (config.server, config.authorization()) == ("http://127.0.0.1:1", "Bearer secret")
    assert run.kubeconfig.stat().st_mode & 0o077 == 0
    runs.close(run)
    assert [each.is_under_way for each in runs.runs(tmp_path)] == [False]


def test_the_latest_and_active_runs_are_kept(tmp_path: Path) -> None:
    first = runs.new_directory(tmp_path, "first", NOW.replace(year=2025))
    runs.note(first, JOB, url="", token="", began=NOW)
    for day in range(1, 13):
        began = NOW.replace(day=day)
        directory = runs.new_directory(tmp_path, "tiny", began)
        runs.close(runs.note(directory, JOB, url="", token="", began=began))
    runs.prune(tmp_path)
    kept = [each.directory for each in runs.runs(tmp_path)]
    assert len(kept) == runs.KEPT + 1
    assert kept[-1] == first
    assert "20260103" in kept[-2].name


def test_runs_are_in_the_users_state_folder() -> None:
    of_user = Path("/home/me/.local/state/di-orchestrator/runs")
    assert runs.state_directory({"HOME": "/home/me"}) == of_user
    assert runs.state_directory({"XDG_STATE_HOME": "/s", "HOME": "/home/me"}) == Path(
        "/s/di-orchestrator/runs"
    )
