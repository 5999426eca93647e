"""Which API a command speaks to where jobs run on this machine too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from di_cli.exit_codes import ExitCode
from di_kube.config import load_config
from di_local import runs
from tests.fakes.api_server import StandIn
from tests.unit.cli.conftest import JOBS, Di, address_behind, job
from tests.unit.cli.test_command import completed

NOTE = "cartpole is the run on this machine; --cluster means the cluster's\n"
HERE = "cartpole  Starting"
Begin = Callable[..., runs.Run]


@pytest.fixture(scope="module")
def _here() -> Iterator[StandIn]:
    with StandIn() as here:
        yield here


@pytest.fixture
def here(_here: StandIn) -> Iterator[StandIn]:
    yield _here
    with _here.changed:
        _here.objects.clear()
        _here.requests.clear()


@pytest.fixture
def begin(here: StandIn, di: Di, tmp_path: Path) -> Begin:
    """Have a job run here, as di-local notes it down; it is Starting, the cluster's is Running."""
    server = load_config(str(here.kubeconfig(tmp_path / "of-stand-in"))).server

    def begin(name: str = "cartpole") -> runs.Run:
        here.put(f"{JOBS}/{name}", job(name, "Starting"))
        began = datetime(2026, 3, 1, 9, tzinfo=UTC)
        directory = runs.new_directory(runs.state_directory(os.environ), name, began)
        metadata = {"name": name, "namespace": "rl"}
        return runs.note(directory, {"metadata": metadata}, url=server, token="t", began=began)

    di.job()
    return begin


@pytest.mark.proves("cli.md#without-a-cluster")
def test_a_local_run_is_chosen_with_a_note(begin: Begin, di: Di) -> None:
    begin()
    said = di("get", "cartpole")
    assert (said.code, said.err) == (0, NOTE)
    assert said.lines[1].startswith(HERE)


@pytest.mark.parametrize(
    ("words", "is_here"),
    [
        (["--local"], True),
        (["--cluster"], False),
        (["--context", "test"], False),
        (["-n", "rl", "--local"], True),
    ],
)
def test_options_choose_between_local_and_cluster(
    begin: Begin, di: Di, words: list[str], is_here: bool
) -> None:
    begin()
    said = di("get", "cartpole", *words)
    assert (said.code, said.err) == (0, "")
    assert said.lines[1].startswith(HERE) is is_here


def test_a_runs_kubeconfig_chooses_that_run(
    begin: Begin, di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = begin(), begin()
    monkeypatch.setenv("KUBECONFIG", str(first.kubeconfig))
    said = di("list")
    assert (said.code, said.err) == (0, "")
    assert said.lines[1].startswith(HERE)


def test_other_jobs_and_namespaces_are_read_from_the_cluster(begin: Begin, di: Di) -> None:
    begin("pong")
    assert di("get", "cartpole").lines[1].startswith("cartpole  Running")
    begin()
    assert di("get", "cartpole", "-n", "other").code == ExitCode.NOT_FOUND


def test_two_runs_of_one_name_are_ambiguous(begin: Begin, di: Di) -> None:
    some = [begin(), begin()]
    said = di("delete", "cartpole")
    assert said.code == ExitCode.USAGE
    assert "error: 2 runs on this machine can be meant" in said.err
    assert all(f"rl/cartpole since {run.began}: {run.directory}" in said.err for run in some)
    assert "KUBECONFIG=" in said.err


def test_an_ended_run_is_not_found_but_its_logs_are_named(begin: Begin, di: Di) -> None:
    run = begin("pong")
    runs.close(run)
    for words in (["get", "pong"], ["get", "pong", "--local"]):
        said = di(*words)
        assert said.code == ExitCode.NOT_FOUND
        assert f"  its run on this machine is over; logs: {run.directory}\n" in said.err


def test_a_list_shows_the_cluster_and_names_local_runs(begin: Begin, di: Di) -> None:
    assert (di("list").err, di("list", "--local").lines) == ("", ["no jobs run on this machine"])
    begin()
    said = di("list")
    assert said.lines[1].startswith("cartpole  Running")
    assert said.err == "on this machine: cartpole; di list --local\n"
    said = di("list", "--local")
    assert (said.lines[1][: len(HERE)], said.err) == (HERE, "")


@pytest.mark.proves("cli.md#without-a-cluster")
def test_without_a_cluster_a_list_shows_local_runs(
    begin: Begin, di: Di, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert di("list").code == ExitCode.NOT_FOUND
    begin()
    said = di("list")
    assert (said.lines[1][: len(HERE)], said.err) == (HERE, "")


def test_local_and_context_contradict_each_other(di: Di) -> None:
    assert di("get", "cartpole", "--local", "--context", "test").code == ExitCode.USAGE


def test_commands_reach_the_local_run(begin: Begin, di: Di, here: StandIn) -> None:
    begin()
    for words in (
        ["scale", "cartpole", "collector=3"],
        ["set", "cartpole", "priority=high"],
        ["restart", "cartpole"],
        ["suspend", "cartpole"],
        ["wait", "cartpole", "--for", "phase=Starting"],
        ["describe", "cartpole"],
        ["events", "cartpole"],
        ["why", "cartpole"],
        ["delete", "cartpole"],
    ):
        said = di(*words)
        assert (said.code, said.err) == (0, NOTE), words
    assert di.world.requests == []
    assert {(method, urlsplit(path).path) for method, path, _ in here.requests} >= {
        ("PATCH", f"{JOBS}/cartpole"),
        ("DELETE", f"{JOBS}/cartpole"),
    }


def test_top_is_not_available_for_local_runs(begin: Begin, di: Di) -> None:
    begin()
    assert "is not measured" in di("top", "cartpole").err


def test_completion_includes_local_runs(
    begin: Begin, di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin("carpark")
    assert completed(monkeypatch, di.capture, "di get car") == ["carpark", "cartpole"]


@pytest.mark.proves("dashboard.md#without-a-cluster")
def test_the_page_shows_the_local_run_alone(
    begin: Begin, di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin("pong")
    opened: list[str] = []
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(
        "di_dashboard.main.until_interrupted",
        lambda: seen.append(requests.Session().get(address_behind(opened[0]), timeout=60).text),
    )
    assert di("dashboard", "--local").code == 0
    assert "pong" in seen[0]
    assert "cartpole" not in seen[0]
