"""The table of what is done about what goes wrong: complete, and read from the top."""

from __future__ import annotations

from itertools import product

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
    for phase, has_started, reason in product((None, *Phase), (True, False), ("", "Evicted")):
        case = Case(seen=seen, part=part, phase=phase, has_started=has_started, pod_reason=reason)
        then = rule_for(case).then
        assert then in (OF_PODS if seen in PODS else OF_REFUSED)
        assert seen is not Seen.POD_FAILED or then in OF_PARTS[part]
        assert seen not in (Seen.POD_DELETED, Seen.POD_GONE) or then in (
            Then.RESCHEDULE,
            Then.IGNORE,
        )


def test_every_row_decides_some_case() -> None:
    reasons = {rule.pod_reason.rstrip("*") for rule in RULES if rule.pod_reason}
    conditions = {frozenset({rule.pod_condition}) for rule in RULES if rule.pod_condition}
    cases = product(
        Seen, Part, (None, *Phase), (True, False), {"", *reasons}, {frozenset[str](), *conditions}
    )
    decided = {
        rule_for(
            Case(
                seen=seen,
                part=part,
                phase=phase,
                has_started=has_started,
                pod_reason=reason,
                pod_conditions=true,
            )
        )
        for seen, part, phase, has_started, reason, true in cases
    }
    assert decided == set(RULES)


def test_every_refusal_has_a_reason_or_is_internal() -> None:
    silent = {rule.seen for rule in RULES if rule.seen in REFUSED and not rule.reason}
    assert silent == {Seen.NAME_OF_OWN, Seen.NAME_OF_EARLIER}


def test_the_first_row_that_fits_decides() -> None:
    own = Rule(seen=Seen.POD_FAILED, then=Then.RESCHEDULE, part=Part.TASK, pod_reason="Cosmic*")
    case = Case(seen=Seen.POD_FAILED, part=Part.TASK, phase=Phase.RUNNING, pod_reason="CosmicRay")
    assert rule_for(case).then is Then.RESTART
    assert rule_for(case, (own, *RULES)) is own
    assert rule_for(case, (*RULES, own)).then is Then.RESTART


def test_a_case_without_a_row_is_an_error_that_names_it() -> None:
    case = Case(seen=Seen.POD_GONE, part=Part.REPLICA, phase=None)
    with pytest.raises(LookupError, match=r"^no rule for .*vanished"):
        rule_for(case, ())


@pytest.mark.proves("lifecycle.md#which-pods-count-as-failed")
@pytest.mark.parametrize(
    ("status", "counters"),
    [
        ({"phase": "Failed"}, (1, 0)),
        ({"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}, (0, 1)),
        ({"phase": "Failed", "reason": "Evicted"}, (0, 1)),
        ({"phase": "Failed", "reason": "NodeLost"}, (0, 1)),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, (0, 1)),
        ({"phase": "Failed", "reason": "EvictedByMistake"}, (1, 0)),
        (
            {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
            (0, 1),
        ),
        (
            {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "False"}]},
            (1, 0),
        ),
    ],
)
def test_the_status_of_an_ended_pod_selects_the_row(
    status: dict[str, object], counters: tuple[int, int]
) -> None:
    cluster = running(task("learner", 2), backoffLimit=3)
    cluster._set("x-learner-0", status)
    cluster.reconcile()
    assert cluster.counts == counters


@pytest.mark.parametrize(
    ("reason", "phase"), [("", "Failed"), ("Evicted", "Rescheduling"), ("OutOfcpu", "Rescheduling")]
)
def test_the_same_row_applies_to_a_coordinator(reason: str, phase: str) -> None:
    cluster: ClusterModel = coordinated()
    cluster.settle().run().settle()
    cluster.evict("x-coordinator", reason).reconcile()
    assert cluster.phase == phase


def test_a_deleted_pod_of_a_job_that_waits_is_not_counted() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", dependsOn=["learner"])))
    cluster.settle()
    assert cluster.phase == "Pending"
    cluster.run("x-learner-0").delete_pod("x-learner-0").reconcile()
    assert cluster.status["reschedules"] == 0
