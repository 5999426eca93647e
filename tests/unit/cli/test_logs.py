"""di logs: which logs, in which order, how much of them, and why one has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from di_cli.exit_codes import ExitCode
from di_cli.logs.followed import Followed
from di_cli.logs.read import Asked, last_bytes
from di_cli.logs.sources import sources_of
from di_cli.session import open_session
from tests.unit.cli.conftest import PODS, Di, pod

LEARNER, COLLECTOR = "cartpole-learner-0", "cartpole-collector-0"


def lines(*texts: str, minute: int = 0) -> list[str]:
    return [f"2026-03-01T11:{minute:02}:{i:02}Z {text}" for i, text in enumerate(texts)]


def of_two(di: Di) -> None:
    di.job()
    di.pod("cartpole", "learner", 0, 0)
    di.pod("cartpole", "collector", 0, 1)
    di.world.logs[LEARNER] = ["2026-03-01T11:00:00Z line 0", "2026-03-01T11:00:02Z line 2"]
    di.world.logs[COLLECTOR] = ["2026-03-01T11:00:01Z line 1", "2026-03-01T11:00:03Z line 3"]


IN_ORDER = [
    "cartpole-learner-0    line 0",
    "cartpole-collector-0  line 1",
    "cartpole-learner-0    line 2",
    "cartpole-collector-0  line 3",
]


def test_logs_of_all_pods_are_merged_by_time(di: Di) -> None:
    of_two(di)
    assert di("logs", "cartpole").lines == IN_ORDER
    assert di("logs", "cartpole", "--rank", "1", "--tail", "1").lines == IN_ORDER[-1:]
    timed = di("logs", "cartpole", "--rank", "1", "--timestamps").lines
    assert timed[0] == "cartpole-collector-0  2026-03-01T11:00:01Z line 1"
    assert di("logs", "cartpole", "-t", "evaluator").code == ExitCode.NOT_FOUND
    assert di("logs", "cartpole", "--since", "soon").code == ExitCode.USAGE


def test_the_end_of_a_long_log_is_shown_and_the_rest_mentioned(di: Di) -> None:
    di.job()
    di.pod("cartpole", "learner", 0, 0)
    di.world.logs[LEARNER] = [f"2026-03-01T11:00:00Z step {i} {'x' * 99}" for i in range(40_000)]
    shown = di("logs", "cartpole")
    assert len(shown.lines) == 200
    assert shown.lines[-1].startswith("cartpole-learner-0  step 39999 x")
    assert shown.err == (
        "the last 200 lines of each log; --tail -1 shows all, --save writes files\n"
    )
    whole = di("logs", "cartpole", "--tail", "-1")
    assert (len(whole.lines), whole.err) == (40_000, "")


def test_a_whole_log_can_be_saved(di: Di, tmp_path: Path) -> None:
    of_two(di)
    said = di("logs", "cartpole", "--save", str(tmp_path / "logs"))
    assert said.out == f"2 of 2 logs are in {tmp_path}/logs\n"
    saved = tmp_path / "logs" / f"{LEARNER}.di-container.log"
    assert saved.read_text().splitlines() == di.world.logs[LEARNER]
    refused = di("logs", "cartpole", "--save", str(saved))
    assert refused.err.splitlines()[0] == f"error: {saved} cannot be written"


def test_a_log_that_is_not_there_is_explained(di: Di) -> None:
    of_two(di)
    message = f'container "di-container" in pod "{LEARNER}" is waiting to start: ErrImagePull'
    di.world.refusals["GET", f"{PODS}/{LEARNER}/log"] = {"code": 400, "message": message}
    said = di("logs", "cartpole")
    assert said.lines == IN_ORDER[1::2]
    assert said.err == f"{LEARNER}: no log: {message}\n"


def test_previous_runs_of_replaced_pods_are_in_the_history(di: Di) -> None:
    di.job()
    di.pod("cartpole", "learner", 0, 0)
    message = 'previous terminated container "di-container" not found'
    di.world.refusals["GET", f"{PODS}/{LEARNER}/log"] = {"code": 400, "message": message}
    said = di("logs", "cartpole", "--previous")
    assert said.code == ExitCode.NOT_FOUND
    assert said.err.splitlines() == [
        f"{LEARNER}: no log: {message}",
        "error: no container of dijob/cartpole that is meant has run before in its pod",
        "  try: di logs cartpole --ended (where di-history is installed)",
    ]


def with_sidecars(**status: Any) -> dict[str, Any]:
    found = pod("cartpole", "learner", 0, 0, **status)
    found["spec"]["initContainers"] = [{"name": "fetch"}]
    found["spec"]["containers"].append({"name": "shipper"})
    return found


def test_logs_of_init_containers_and_sidecars_are_shown(di: Di) -> None:
    of_two(di)
    di.world.put(f"{PODS}/{LEARNER}", with_sidecars())
    di.world.logs[f"{LEARNER}/fetch"] = ["2026-03-01T10:00:00Z fetched"]
    di.world.logs[f"{LEARNER}/shipper"] = ["2026-03-01T12:00:00Z shipped"]
    assert di("logs", "cartpole", "-c", "fetch").lines == ["cartpole-learner-0  fetched"]
    shown = di("logs", "cartpole", "--all-containers", "-t", "learner").lines
    assert [line.split()[-1] for line in shown] == ["fetched", "0", "2", "shipped"]
    assert shown[-1] == "cartpole-learner-0/shipper       shipped"


def test_an_unknown_container_is_an_error(di: Di) -> None:
    of_two(di)
    di.world.put(f"{PODS}/{LEARNER}", with_sidecars())
    for follow in ([], ["-f"]):
        said = di("logs", "cartpole", "-c", "nope", *follow)
        assert said.code == ExitCode.NOT_FOUND
        assert said.err.splitlines() == [
            "error: no pod of dijob/cartpole that is meant has a container nope",
            "  containers there: fetch, di-container, shipper",
            "  try: di logs cartpole --all-containers",
        ]


@pytest.mark.parametrize(
    ("state", "has_begun"),
    [
        ({"state": {"waiting": {"reason": "PodInitializing"}}}, False),
        ({"state": {"waiting": {}}, "lastState": {"terminated": {}}}, True),
        ({"state": {"running": {}}}, True),
        ({"state": {"terminated": {}}}, True),
    ],
)
def test_a_log_begins_with_its_container(state: dict[str, Any], has_begun: bool) -> None:
    statuses = [{"name": "fetch", **state}]
    found = with_sidecars(phase="Pending", initContainerStatuses=statuses)
    (source,) = sources_of([found], container="fetch")
    assert source.has_begun is has_begun
    assert not sources_of([found])[0].has_begun


def followed(**asked: Any) -> Iterator[Any]:
    with open_session(connections=8) as session:
        yield from Followed(
            session, "cartpole", Asked(**asked), sources_of, on_none=lambda *_: None
        ).lines()


def test_followed_logs_include_new_pods_and_restarted_containers(di: Di) -> None:
    di.job()
    for name in (LEARNER, COLLECTOR):
        di.world.logs[name] = [f"2026-03-01T11:00:00Z of {name}"]
    di.pod("cartpole", "learner", 0, 0)
    found = followed()
    assert next(found).text == f"of {LEARNER}"
    path = f"{PODS}/{COLLECTOR}"
    di.world.put(path, pod("cartpole", "collector", 0, 1, phase="Pending"), "ADDED")
    di.world.put(path, pod("cartpole", "collector", 0, 1))
    assert next(found).text == f"of {COLLECTOR}"
    di.world.logs[COLLECTOR] = ["2026-03-01T11:00:01Z of its second run"]
    restarted = [{"name": "di-container", "restartCount": 1}]
    di.world.put(path, pod("cartpole", "collector", 0, 1, containerStatuses=restarted))
    assert next(found).text == "of its second run"
    di.job(phase="Succeeded")
    assert list(found) == []


def test_followed_logs_begin_in_order_of_time(di: Di) -> None:
    of_two(di)
    found = followed()
    assert [next(found).text for _ in range(4)] == ["line 0", "line 1", "line 2", "line 3"]
    di.job(phase="Succeeded")
    assert list(found) == []


@pytest.mark.parametrize(
    ("phase", "code", "words"),
    [
        ("Succeeded", ExitCode.DONE, ["dijob/cartpole is Succeeded"]),
        (
            "Failed",
            ExitCode.ENDED_OTHERWISE,
            ["error: dijob/cartpole is Failed", "  try: di why cartpole"],
        ),
    ],
)
def test_following_ends_with_the_job(di: Di, phase: str, code: ExitCode, words: list[str]) -> None:
    of_two(di)
    di.job(phase=phase)
    said = di("logs", "cartpole", "-f")
    assert said.lines == IN_ORDER
    assert (said.code, said.err.splitlines()) == (code, words)


def test_the_last_bytes_of_a_log_are_whole_lines() -> None:
    assert last_bytes(["a" * 10, "b" * 10, "ü" * 5], 22) == (["b" * 10, "ü" * 5], 1)
    assert last_bytes(["a" * 100], 10) == (["a" * 100], 0)
