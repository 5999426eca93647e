"""The named scenarios."""

from __future__ import annotations

from pathlib import Path

import pytest

from di_kube.config import KubeConfig
from tests.faults.conftest import chosen_parameters, played
from tools.faults.scenarios import SCENARIOS


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, fault_server: KubeConfig, fault_folder: Path
) -> dict[str, object]:
    chosen = chosen_parameters(request.session, "name")
    scenarios = {name: each for name, each in SCENARIOS.items() if name in chosen}
    return played(fault_server, fault_folder, scenarios)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, outcomes: dict[str, object]) -> None:
    outcome = outcomes[name]
    if isinstance(outcome, BaseException):
        raise outcome
