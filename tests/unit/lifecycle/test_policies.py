"""A policy is one object in one ordered list, and nothing that asks it knows which there are."""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from pathlib import Path

import pytest

from di_operator import lifecycle
from di_operator.lifecycle import build_status, decide
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.policy_order import AFTER, BEFORE, POLICIES
from di_operator.lifecycle.vocabulary.conditions import OWN_ASIDES
from di_operator.lifecycle.vocabulary.reasons import Problem
from tests.unit.lifecycle.cluster_model import ClusterModel, running

FOLDER = Path(lifecycle.__path__[0])
MOST_IMPORTS = 10


def reports(cluster: ClusterModel) -> list[Report]:
    """What all policies report about a job whose phase stays as it is."""
    snapshot = cluster.snapshot()
    assert snapshot.status.phase is not None
    verdict = Verdict(phase=snapshot.status.phase)
    asked = (policy.report for policy in POLICIES if policy.report is not None)
    return [report(snapshot, verdict, cluster.now) for report in asked]


def test_every_problem_is_solved_in_a_healthy_job() -> None:
    found = [each for report in reports(running()) for each in report.conditions]
    solved = {each.type for each in found if isinstance(each.type, Problem) and not each.value}
    assert solved == {*Problem}


def test_each_status_field_and_condition_has_one_policy() -> None:
    found = reports(running())
    fields = Counter(key for report in found for key in report.fields)
    types = Counter(each.type for report in found for each in report.conditions)
    assert set((fields + types).values()) == {1}


def test_each_condition_of_a_policy_is_taken_back_when_it_is_not_reported() -> None:
    types = {each.type for report in reports(running()) for each in report.conditions}
    assert types <= OWN_ASIDES


@pytest.mark.parametrize("folder", ["policies", "policies/reports", "repairs", "job_types"])
def test_each_policy_object_is_in_the_order_once(folder: str) -> None:
    modules = (path for path in (FOLDER / folder).glob("*.py") if path.stem != "__init__")
    package = f"{lifecycle.__name__}.{folder.replace('/', '.')}"
    found = [
        value
        for module in modules
        for value in vars(importlib.import_module(f"{package}.{module.stem}")).values()
        if isinstance(value, Policy)
    ]
    assert found
    assert all(sum(each is policy for policy in (*BEFORE, *AFTER)) == 1 for each in found)


@pytest.mark.parametrize("module", [decide, build_status])
def test_the_loops_over_policies_import_ten_modules_at_most(module: object) -> None:
    tree = ast.parse(Path(str(vars(module)["__file__"])).read_text())
    names = {
        f"{each.module}.{alias.name}" if each.module == lifecycle.__name__ else each.module
        for each in tree.body
        if isinstance(each, ast.ImportFrom) and str(each.module).startswith("di_")
        for alias in each.names
    }
    assert len(names) <= MOST_IMPORTS
