"""What a framework cannot do is refused with its reason, and anything else is admitted."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.frameworks import FRAMEWORKS
from di_api.spec import Framework
from di_api.validation.task.process_group import wrong_process_group

BOUNDS = {"minReplicas": 1, "maxReplicas": 3}


def refusals(framework: Framework, **group: Any) -> list[str]:
    task = {**BOUNDS, "processGroup": {"framework": framework.value, **group}}
    return [str(error) for error in wrong_process_group("t", task)]


@pytest.mark.proves("process-groups.md#frameworks/*")
@pytest.mark.parametrize(
    ("framework", "has_processes", "is_elastic"),
    [
        (Framework.TORCH, True, True),
        (Framework.JAX, False, False),
        (Framework.XGBOOST, False, False),
        (Framework.NONE, True, True),
    ],
)
def test_a_framework_has_the_processes_and_sizes_that_its_row_shows(
    framework: Framework, *, has_processes: bool, is_elastic: bool
) -> None:
    assert (refusals(framework, processesPerReplica=2) == []) is has_processes
    assert (refusals(framework, elastic=True) == []) is is_elastic
    assert refusals(framework, processesPerReplica=1, elastic=False) == []


@pytest.mark.parametrize("framework", Framework)
def test_a_refusal_has_the_reason_of_the_frameworks_declaration(framework: Framework) -> None:
    declared = FRAMEWORKS[framework]
    found = refusals(framework, processesPerReplica=2, elastic=True)
    reasons = (declared.single_process, declared.fixed_size)
    assert len(found) == sum(reason is not None for reason in reasons)
    assert all(any(reason in each for each in found) for reason in reasons if reason)
