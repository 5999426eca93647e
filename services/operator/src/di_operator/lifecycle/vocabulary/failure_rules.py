"""The rules of a job's failure policy: the first that matches a failed pod decides about it.

A pod that matches none is judged by the table for all jobs, `rules.RULES`.
"""

from __future__ import annotations

from dataclasses import dataclass

from di_api.spec import FailureAction, FailurePolicy, FailureRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """The observations of a failed pod that the rules of a failure policy match."""

    exit_code: int | None
    """Exit code of the container that failed first; None if no container has one."""
    reasons: frozenset[str]
    """Reasons in the status of that container and of the pod."""
    conditions: frozenset[str]
    """Types of the pod's conditions that are True."""
    has_begun: bool = True
    """Whether any container of the pod ran."""
    goes_on: bool = False
    """Whether the kubelet restarts the failed container in the pod."""
    is_ending: bool = False
    """Whether the pod is being deleted: its exit codes are then not the program's."""


def matching_rule(policy: FailurePolicy | None, task: str, signs: Signs) -> FailureRule | None:
    """Return the first rule that matches a failed pod of the task; None if none does."""
    rules = policy.rules if policy is not None else ()
    return next((rule for rule in rules if _fits(rule, task, signs)), None)


def _fits(rule: FailureRule, task: str, signs: Signs) -> bool:
    """Return whether every requirement of the rule is met."""
    return (
        # Only a pod that is still running can restart a container in place.
        (signs.goes_on or rule.action is not FailureAction.RESTART_IN_PLACE)
        # A pod that never ran is no failure of the program: only a rule with its reason or
        # condition decides about it.
        and (signs.has_begun or bool(rule.on_reasons or rule.on_conditions))
        and (not signs.is_ending or bool(rule.on_conditions))
        and (not rule.tasks or task in rule.tasks)
        # As in batch/v1: a container without an exit code does not match NotIn either.
        and (
            rule.on_exit_codes is None
            or (signs.exit_code is not None and rule.on_exit_codes.fits(signs.exit_code))
        )
        and (not rule.on_reasons or not signs.reasons.isdisjoint(rule.on_reasons))
        and (not rule.on_conditions or not signs.conditions.isdisjoint(rule.on_conditions))
    )
