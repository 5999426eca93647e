"""What the documents name is what the services have."""

from __future__ import annotations

import re
from pathlib import Path

from di_operator.lifecycle.problems import SOLVED
from di_operator.metrics import Metrics as OperatorMetrics
from di_server.metrics import Metrics as ServerMetrics

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_metrics_worth_an_alert_are_there() -> None:
    named = re.findall(r"^\| `(di_\w+)\{", (DOCS / "operations.md").read_text(), re.MULTILINE)
    assert len(named) == 4
    registries = (OperatorMetrics().registry, ServerMetrics().registry)
    there = {family.name for registry in registries for family in registry.collect()}
    assert {name.removesuffix("_total") for name in named} <= there


def test_the_conditions_of_problems_are_all_explained() -> None:
    text = (DOCS / "lifecycle.md").read_text()
    table = text.partition("| Condition | When it is True |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(SOLVED)
