"""The idlePolicy of the documentation, with what the programs of the examples have reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.lifecycle.cluster_model import ClusterModel, running, task
from tests.unit.lifecycle.failures.idle_jobs import is_idle

REPORTS = json.loads(Path(__file__).with_name("example_reports.json").read_text())
"""Seconds since the first report, and `learnerWaitFrac`, of one run of each example by
`di run`, read each second; null: the reports had none."""
IDLE = {"cartpole", "impala"}
PAGE = (Path(__file__).parents[4] / "docs/reference/lifecycle.md").read_text()


def policy() -> Any:
    """The first policy of the page."""
    section = PAGE.partition("### Idle jobs")[2].partition("```yaml")[2]
    return yaml.safe_load(section.partition("```")[0])["spec"]["idlePolicy"]


def numbers(share: float | None) -> dict[str, float]:
    """A report with that share."""
    return {"envSteps": 1.0} if share is None else {"learnerWaitFrac": share}


def training() -> ClusterModel:
    """A job with the policy, which has run for a minute."""
    return running(task("learner"), task("collector", 2), idlePolicy=policy()).wait(60)


@pytest.mark.parametrize("example", REPORTS)
def test_no_example_is_idle_while_it_runs(example: str) -> None:
    cluster, before = training(), 0
    for at, share in REPORTS[example]:
        cluster.wait(at - before).report(**numbers(share)).settle()
        assert not is_idle(cluster)
        before = at
    assert not is_idle(cluster.wait(1))


@pytest.mark.proves("lifecycle.md#idle-jobs")
@pytest.mark.parametrize("example", REPORTS)
def test_an_example_that_ran_longer_is_idle_only_if_it_waits(example: str) -> None:
    cluster, shares = training(), [share for _, share in REPORTS[example]]
    minutes = 2 * policy()["seconds"] // 60
    for minute in range(minutes):
        cluster.wait(60).report(**numbers(shares[minute % len(shares)])).settle()
    assert is_idle(cluster) == (example in IDLE)


@pytest.mark.parametrize("example", REPORTS)
def test_the_page_has_the_shares_that_were_reported(example: str) -> None:
    shares = [share for _, share in REPORTS[example] if share is not None]
    if not shares:
        assert f"no share (`{example}`)" in " ".join(PAGE.split())
        return
    low, high = f"{min(shares):.2f}", f"{max(shares):.2f}"
    shown = low if low == high else f"{low} to {high}"
    assert f"{shown} (`{example}`)" in " ".join(PAGE.split())
