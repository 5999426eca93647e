"""The table of what is done about what goes wrong: complete, and read from the top."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from di_api.phase import Phase
from di_operator.lifecycle.vocabulary.rules import RULES, Case, Part, Rule, Seen, Then, rule_for
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task
from tests.unit.lifecycle.test_coordinated import coordinated

PODS = frozenset({Seen.POD_FAILED, Seen.POD_DELETED, Seen.POD_GONE})
REFUSED = frozenset(Seen) - PODS
OF_PODS = frozenset({Then.FAIL, Then.RESTART, Then.RESCHEDULE, Then.IGNORE})
OF_REFUSED = frozenset(Then) - {Then.RESTART, Then.RESCHEDULE, Then.IGNORE}
OF_PARTS = {
    Part.TASK: {Then.RESTART, Then.RESCHEDULE},
    Part.ELASTIC: {Then.RESTART, Then.RESCHEDULE},
    Part.COORDINATOR: {Then.FAIL, Then.RESCHEDULE},
    Part.REPLICA: {Then.RESTART, Then.RESCHEDULE},
}


@pytest.mark.parametrize("seen", Seen)
@pytest.mark.parametrize("part", Part)
def test_there_is_a_row_for_every_case_and_its_answer_can_be_carried_out(
    seen: Seen, part: Part
) -> None:
    for phase, has_started, began in product((None, *Phase), (True, False), (True, False)):
        case = Case(seen=seen, part=part, phase=phase, has_started=has_started, has_begun=began)
        then = rule_for(case).then
        assert then in (OF_PODS if seen in PODS else OF_REFUSED)
        assert seen is not Seen.POD_FAILED or then in OF_PARTS[part]
        assert seen not in (Seen.POD_DELETED, Seen.POD_GONE) or then in (
            Then.RESCHEDULE,
            Then.IGNORE,
        )


def test_every_row_decides_some_case() -> None:
    conditions = {frozenset({rule.pod_condition}) for rule in RULES if rule.pod_condition}
    cases = product(
        Seen, Part, (None, *Phase), (True, False), (True, False), {frozenset[str](), *conditions}
    )
    decided = {
        rule_for(
            Case(
                seen=seen,
                part=part,
                phase=phase,
                has_started=has_started,
                has_begun=began,
                pod_conditions=true,
            )
        )
        for seen, part, phase, has_started, began, true in cases
    }
    assert decided == set(RULES)


def test_every_refusal_has_a_reason_or_is_internal() -> None:
    silent = {rule.seen for rule in RULES if rule.seen in REFUSED and not rule.reason}
    assert silent == {Seen.NAME_OF_OWN, Seen.NAME_OF_EARLIER}


def test_the_first_row_that_fits_decides() -> None:
    own = Rule(seen=Seen.POD_FAILED, then=Then.RESCHEDULE, pod_condition="CosmicRay")
    case = Case(
        seen=Seen.POD_FAILED,
        part=Part.TASK,
        phase=Phase.RUNNING,
        pod_conditions=frozenset({"CosmicRay"}),
    )
    assert rule_for(case).then is Then.RESTART
    assert rule_for(case, (own, *RULES)) is own
    assert rule_for(case, (*RULES, own)).then is Then.RESTART


def test_a_case_without_a_row_is_an_error_that_names_it() -> None:
    case = Case(seen=Seen.POD_GONE, part=Part.REPLICA, phase=None)
    with pytest.raises(LookupError, match=r"^no rule for .*vanished"):
        rule_for(case, ())


EXITED: dict[str, Any] = {
    "containerStatuses": [{"name": "di-container", "state": {"terminated": {"exitCode": 1}}}]
}
GIVEN_UP = {
    "name": "di-container",
    "state": {"terminated": {"exitCode": 137, "startedAt": None, "finishedAt": None}},
}
CREATING = {"name": "di-container", "state": {"waiting": {"reason": "ContainerCreating"}}}


def disruption(value: str) -> dict[str, Any]:
    return {"conditions": [{"type": "DisruptionTarget", "status": value}]}


@pytest.mark.proves("lifecycle.md#which-pods-count-as-failed")
@pytest.mark.parametrize(
    ("status", "counters"),
    [
        (EXITED, (1, 0)),
        ({**EXITED, "reason": "Evicted"}, (1, 0)),
        ({**EXITED, "reason": "DeadlineExceeded"}, (1, 0)),
        ({**EXITED, **disruption("True")}, (0, 1)),
        ({**EXITED, "reason": "Evicted", **disruption("True")}, (0, 1)),
        ({**EXITED, **disruption("False")}, (1, 0)),
        ({}, (0, 1)),
        ({"reason": "NodeAffinity"}, (0, 1)),
        ({"reason": "OutOfnvidia.com/gpu"}, (0, 1)),
        ({"reason": "ANameOfNextYear"}, (0, 1)),
        ({"containerStatuses": [GIVEN_UP]}, (0, 1)),
        ({"containerStatuses": [CREATING]}, (0, 1)),
        ({"initContainerStatuses": EXITED["containerStatuses"]}, (1, 0)),
    ],
    ids=str,
)
def test_the_status_of_an_ended_pod_selects_the_row(
    status: dict[str, Any], counters: tuple[int, int]
) -> None:
    cluster = running(task("learner", 2), backoffLimit=3)
    cluster._set("x-learner-0", {"phase": "Failed", **status})
    cluster.reconcile()
    assert cluster.counts == counters


@pytest.mark.parametrize(
    ("how", "phase"),
    [("failed", "Failed"), ("evicted", "Rescheduling"), ("rejected", "Rescheduling")],
)
def test_the_same_row_applies_to_a_coordinator(how: str, phase: str) -> None:
    cluster: ClusterModel = coordinated()
    cluster.settle().run().settle()
    cluster.lose("x-coordinator", how).reconcile()
    assert cluster.phase == phase


def test_a_deleted_pod_of_a_job_that_waits_is_not_counted() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", dependsOn=["learner"])))
    cluster.settle()
    assert cluster.phase == "Pending"
    cluster.run("x-learner-0").delete_pod("x-learner-0").reconcile()
    assert cluster.status["reschedules"] == 0
