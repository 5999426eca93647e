"""The validations of the policy on DIJobs, as they are made from the declared rules."""

from __future__ import annotations

from typing import Any

from di_api.crd.changes import finished_job, fixed_fields, fixed_in_items
from di_api.crd.policy import validations
from di_api.spec import Code, Coordinated, JobSpec
from di_api.spec.bounds import MAX_PODS
from di_api.spec.declared import fields_of
from di_api.validation.relations import of_job
from di_api.validation.relations.of_task import OF_TASK
from di_api.validation.relations.row import Relation

# An API server takes no longer expression or message of a policy.
LONGEST = 10 * 1024
VALIDATIONS = validations()


def validation(message: str) -> dict[str, str]:
    (found,) = (each for each in VALIDATIONS if each["message"].endswith(message))
    return found


def test_every_declared_rule_is_a_validation() -> None:
    rows: tuple[Relation[Any], ...] = (
        *(
            *of_job.OF_SPEC,
            *of_job.OF_TASKS,
            *of_job.OF_CHECKPOINT,
            *of_job.OF_ARTIFACTS,
            *of_job.OF_CODE,
        ),
        *OF_TASK,
    )
    declared = [
        finished_job(),
        *fixed_fields(JobSpec),
        *fixed_in_items(fields_of(JobSpec)["tasks"]),
        *fixed_fields(Coordinated),
        *fixed_fields(Code),
        *(rule for row in rows for rule in row.rules),
        *of_job.OF_FAILURE_RULE,
        *of_job.OF_EXIT_CODES,
    ]
    assert len(VALIDATIONS) == len(declared) + 1  # the bytes of a spec
    messages = [each["message"] for each in VALIDATIONS]
    assert all(any(m.endswith(rule["message"]) for m in messages) for rule in declared)


def test_a_rule_stands_at_its_place_and_spares_what_broke_it_before() -> None:
    found = validation("firstTimeoutSeconds must be at least timeoutSeconds")
    assert found["message"].startswith("spec.progressPolicy: ")
    rule = (
        "(!has({0}.spec.progressPolicy) || !has({0}.spec.progressPolicy.firstTimeoutSeconds) || "
        "{0}.spec.progressPolicy.firstTimeoutSeconds >= {0}.spec.progressPolicy.timeoutSeconds)"
    )
    before = f"oldObject != null && !{rule.format('oldObject')}"
    assert found["expression"] == f"{rule.format('object')} || {before}"


def test_a_rule_about_a_task_is_asked_of_each_and_names_it() -> None:
    found = validation("needs maxReplicas")
    rule = "(!has({0}.scalable) || !{0}.scalable || has({0}.maxReplicas))"
    each = f"(!has(object.spec.tasks) || object.spec.tasks.all(item0, {rule.format('item0')}))"
    assert found["expression"].startswith(f"{each} || ")
    assert found["messageExpression"] == (
        f"object.spec.tasks.filter(item, !{rule.format('item')}).map(item, 'spec.tasks[' + "
        "string(object.spec.tasks.indexOf(item)) + '].scalable' + ' (task \"' + "
        '(has(item.name) ? item.name : item.type) + \'")\' + ": needs maxReplicas")[0]'
    )


def test_a_rule_about_a_change_is_not_asked_of_new_jobs() -> None:
    found = validation(
        "type of a task may not change while the job exists; delete it and create it again"
    )
    assert found["expression"] == (
        "oldObject == null || (!has(object.spec.tasks) || !has(oldObject.spec.tasks) || "
        "(object.spec.tasks.map(t, t.type) == oldObject.spec.tasks.map(t, t.type)))"
    )


def test_a_job_of_too_many_pods_may_have_fewer() -> None:
    (found,) = (
        each for each in VALIDATIONS if f"a job may have {MAX_PODS} pods" in each["message"]
    )
    _, _, change = found["expression"].partition(" || oldObject != null && ")
    now, _, before = change.rpartition(" <= ")
    assert "object.spec" in now
    assert "oldObject.spec" in before


def test_expressions_are_as_short_as_an_api_server_takes() -> None:
    for each in VALIDATIONS:
        assert all(len(text) < LONGEST for text in each.values())
