"""What becomes of a run beside which the API server does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from di_kube.errors import Unavailable
from tools.faults import run
from tools.faults.plan import Plan
from tools.faults.testbed import Testbed

GONE = Unavailable(kind="Pod", name="f-1", code=0, reason="Timeout", message="no answer")


async def played(*_: Any) -> None:
    """A workload that comes to its end."""


async def unanswered(*_: Any) -> None:
    raise GONE


def use_scene(monkeypatch: pytest.MonkeyPatch, *, opens: bool) -> None:
    journal = SimpleNamespace(requests=[], notices=[], met=[])
    replica = SimpleNamespace(proxy=SimpleNamespace(journal=journal))

    @asynccontextmanager
    async def scene(*_: Any, **__: Any) -> AsyncIterator[SimpleNamespace]:
        if not opens:
            raise GONE
        yield SimpleNamespace(logs="", replicas=[replica])

    monkeypatch.setattr(run, "scene", scene)
    monkeypatch.setattr(run, "_play", played)
    monkeypatch.setattr(run, "_settle", unanswered)


def carried_out() -> run.Run:
    plan = Plan(workload="success")
    return asyncio.run(run.run(cast(Testbed, None), plan, lambda _: True))


def test_an_api_server_that_does_not_answer_is_trouble_of_one_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_scene(monkeypatch, opens=True)
    assert (carried_out().trouble or "").startswith("played to its end; then the API server: ")


def test_a_run_that_cannot_begin_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    use_scene(monkeypatch, opens=False)
    with pytest.raises(Unavailable):
        carried_out()
