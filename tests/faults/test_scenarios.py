"""The named scenarios, played side by side: most of their time is waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from di_api.kube.config import KubeConfig
from tests.faults.conftest import chosen_parameters
from tools.faults.footprint import complaints
from tools.faults.scenarios import SCENARIOS, Scenario
from tools.faults.scene import scene
from tools.faults.testbed import Testbed, prepared


async def play_all(server: KubeConfig, folder: Path, names: Sequence[str]) -> dict[str, object]:
    """Play stories side by side, for most of their time is waiting; returns what each raised."""
    async with prepared(server, folder / "runs") as testbed:
        plays = (play(testbed, SCENARIOS[name]) for name in names)
        return dict(zip(names, await asyncio.gather(*plays, return_exceptions=True), strict=True))


async def play(testbed: Testbed, played: Scenario) -> None:
    """Play a story; whatever happens in it, no log may hold a traceback."""
    async with scene(testbed, faults=played.faults, title=played.story.__name__) as stage:
        await played.story(stage)
    assert not list(complaints(stage.logs))


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, fault_server: KubeConfig, fault_folder: Path
) -> dict[str, object]:
    chosen = chosen_parameters(request.session, "name")
    names = [name for name in SCENARIOS if name in chosen]
    return asyncio.run(play_all(fault_server, fault_folder, names))


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, outcomes: dict[str, object]) -> None:
    outcome = outcomes[name]
    if isinstance(outcome, BaseException):
        raise outcome
