"""One API server with an audit log for all tests of faults."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from di_kube.config import KubeConfig
from tests.failures.sources import shown_log
from tools.faults.footprint import complaints
from tools.faults.scenarios import Scenario
from tools.faults.scene import scene
from tools.faults.session import api_server, audit_log
from tools.faults.testbed import Testbed, prepared


@pytest.fixture(scope="session")
def fault_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where operators leave their logs and the API server its audit log."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="session")
def fault_server(fault_folder: Path) -> Iterator[KubeConfig]:
    """kube-apiserver with the CRD; no node runs anything."""
    with api_server(fault_folder) as config, shown_log(audit_log(fault_folder)):
        yield config


def chosen_parameters(session: pytest.Session, name: str) -> set[object]:
    """The values of a parameter in the tests that are going to run."""
    calls = (getattr(item, "callspec", None) for item in session.items)
    return {call.params[name] for call in calls if call is not None and name in call.params}


def played(
    server: KubeConfig, folder: Path, scenarios: Mapping[str, Scenario], *, replicas: int = 1
) -> dict[str, object]:
    """Play stories side by side, for most of their time is waiting; returns what each raised."""

    async def play(testbed: Testbed, one: Scenario) -> None:
        async with scene(
            testbed, replicas=replicas, faults=one.faults, title=one.story.__name__
        ) as stage:
            await one.story(stage)
        # Whatever happens in it, no log may hold a traceback.
        assert not list(complaints(stage.logs))

    async def play_all() -> list[BaseException | None]:
        async with prepared(server, folder / "runs") as testbed:
            plays = (play(testbed, each) for each in scenarios.values())
            return await asyncio.gather(*plays, return_exceptions=True)

    return dict(zip(scenarios, asyncio.run(play_all()), strict=True))
