"""Jobs are followed through whatever becomes of the connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from di_cli.exit_codes import ExitCode
from di_cli.live.follow import follow
from di_kube.errors import ApiError, Forbidden, Gone, Unavailable
from tests.unit.cli.conftest import Di

Script = list[Callable[[], Iterator[tuple[str, Any]]]]


def _job(name: str, version: int) -> Any:
    return {"metadata": {"name": name, "namespace": "rl", "resourceVersion": str(version)}}


class Scripted:
    """A client whose watches are scripted."""

    is_over = False

    def __init__(self, lists: list[Any], watches: Script) -> None:
        self.lists, self.watches = lists, watches
        self.versions: list[str] = []
        self.client = self

    def list(self, *_: Any, **__: Any) -> tuple[list[Any], str]:
        found = self.lists.pop(0)
        if isinstance(found, ApiError):
            raise found
        return found, "1"

    def watch(self, *_: Any, resource_version: str, **__: Any) -> Iterator[tuple[str, Any]]:
        self.versions.append(resource_version)
        return self.watches.pop(0)()


def _events(*events: tuple[str, Any], then: ApiError | None = None) -> Any:
    def play() -> Iterator[tuple[str, Any]]:
        yield from events
        if then is not None:
            raise then

    return play


def _names(session: Scripted, steps: int, pauses: list[float]) -> list[list[str]]:
    found = follow(session, namespace="rl", sleep=pauses.append)  # type: ignore[arg-type]  # its client is all that is used
    return [sorted(name for _, name in next(found)) for _ in range(steps)]


def test_a_cut_watch_resumes_at_its_version() -> None:
    cut = Unavailable(kind="DIJob", reason="WatchCut")
    session = Scripted(
        [[_job("a", 1)]],
        [
            _events(("ADDED", _job("b", 5)), then=cut),
            _events(then=cut),
            _events(("BOOKMARK", _job("", 7))),
            _events(("DELETED", _job("a", 8))),
        ],
    )
    pauses: list[float] = []
    assert _names(session, 3, pauses) == [["a"], ["a", "b"], ["b"]]
    assert session.versions == ["1", "5", "5", "7"]
    assert pauses == [0.2, 0.5]


def test_an_expired_version_is_listed_again() -> None:
    gone = Gone(kind="DIJob")
    session = Scripted([[_job("a", 1)], [_job("b", 2)]], [_events(then=gone)])
    assert _names(session, 2, []) == [["a"], ["b"]]


@pytest.mark.parametrize("error", [Forbidden(kind="DIJob"), Unavailable(kind="DIJob")])
def test_an_error_of_the_first_list_is_raised(error: ApiError) -> None:
    with pytest.raises(type(error)):
        _names(Scripted([error], []), 1, [])


def test_a_watch_that_is_forbidden_raises() -> None:
    session = Scripted([[]], [_events(then=Forbidden(kind="DIJob"))])
    with pytest.raises(Forbidden):
        _names(session, 2, [])


def test_following_ends_at_its_time_limit() -> None:
    now = iter([0.0, 0.0, 1.0, 11.0])
    session = Scripted([[_job("a", 1)]], [_events()])
    found = follow(session, namespace="rl", seconds=10, clock=lambda: next(now))  # type: ignore[arg-type]  # its client is all that is used
    assert len([*found]) == 1


def test_ctrl_c_ends_a_command_silently(di: Di, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Iterator[Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr("di_cli.commands.observe.listing.follow", interrupted)
    said = di("list", "-w")
    assert (said.code, said.err) == (ExitCode.INTERRUPTED, "")
