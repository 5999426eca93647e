"""The chart and the policies take the values that docs/how-to/teams-queues.md shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_operator.allocator.policies.registry import load_policy
from di_operator.allocator.sharing.queues import queues_of
from tests.chart.chart import Chart

DOCS = Path(__file__).resolve().parents[2] / "docs"


def shown(page: str = "how-to/teams-queues.md") -> dict[str, Any]:
    """The first block of values on the page."""
    found = re.search(r"```yaml\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert found is not None
    values: dict[str, Any] = yaml.safe_load(found[1])
    return values


def as_set(value: Any, path: str = "") -> Iterator[str]:
    """Values as words of `--set`."""
    if not isinstance(value, dict):
        yield f"{path}={value}"
        return
    for key, inner in value.items():
        name = str(key).replace(".", r"\.")
        yield from as_set(inner, f"{path}.{name}" if path else name)


@pytest.mark.proves("teams.md#the-allocator-s-queues")
@pytest.mark.parametrize("policy", ["fit", "binpack", "goodput"])
def test_the_documents_queue_values_reach_the_policy(chart: Chart, policy: str) -> None:
    settings = chart.render(*as_set(shown())).one("ConfigMap", "di-operator")["data"]
    arguments = json.loads(settings["DI_OPERATOR_POLICY_ARGUMENTS"])
    assert arguments == shown()["operator"]["allocator"]["arguments"]
    queues = queues_of(load_policy(policy, arguments)).by_namespace
    assert queues["research"].weight == 3
    assert queues["product"].quota["memory"] == 4 * 2**40 * 1000
    assert not queues["students"].guarantee


def test_the_queues_of_the_tutorial_reach_the_policy(chart: Chart) -> None:
    values = shown("tutorials/3-team.md")
    settings = chart.render(*as_set(values)).one("ConfigMap", "di-operator")["data"]
    arguments = json.loads(settings["DI_OPERATOR_POLICY_ARGUMENTS"])
    assert set(queues_of(load_policy("goodput", arguments)).by_namespace) == {
        "research",
        "students",
    }
