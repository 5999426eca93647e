"""Which rule of a failure policy speaks of a pod that failed: the first that fits.

A pod that none speaks of is judged by the table that all jobs have, `rules.RULES`.
"""

from __future__ import annotations

from dataclasses import dataclass

from di_api.spec import FailureAction, FailurePolicy, FailureRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What a failed pod shows of its failure."""

    exit_code: int | None
    """Of the container that failed first; None: no container says so."""
    reasons: frozenset[str]
    """Of that container, and of the pod itself."""
    conditions: frozenset[str]
    """Types of the pod's conditions that are True."""
    has_begun: bool = True
    """Whether any container ran."""
    goes_on: bool = False
    """Whether a container failed, and is started again in the pod."""
    is_ending: bool = False
    """Whether the pod is being deleted: how its containers end says nothing of the program."""


def matching_rule(policy: FailurePolicy | None, task: str, signs: Signs) -> FailureRule | None:
    """Return the rule that decides about a failed pod of a task; None: none does."""
    rules = policy.rules if policy is not None else ()
    return next((rule for rule in rules if _fits(rule, task, signs)), None)


def _fits(rule: FailureRule, task: str, signs: Signs) -> bool:
    """Whether all that the rule asks for is there."""
    return (
        # What has ended as a whole cannot go on in its place.
        (signs.goes_on or rule.action is not FailureAction.RESTART_IN_PLACE)
        # What never ran has not failed as a program: only a rule that names what ended it decides.
        and (signs.has_begun or bool(rule.on_reasons or rule.on_conditions))
        and (not signs.is_ending or bool(rule.on_conditions))
        and (not rule.tasks or task in rule.tasks)
        # As in batch/v1: what did not exit has no code that could not be among the values.
        and (
            rule.on_exit_codes is None
            or (signs.exit_code is not None and rule.on_exit_codes.fits(signs.exit_code))
        )
        and (not rule.on_reasons or not signs.reasons.isdisjoint(rule.on_reasons))
        and (not rule.on_conditions or not signs.conditions.isdisjoint(rule.on_conditions))
    )
