"""`spec.failurePolicy`: how failed pods are handled, besides replacing them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from di_api.spec.bounds import MAX_TASKS
from di_api.spec.declared import Declared
from di_api.spec.kinds import (
    Amount,
    Flag,
    Labels,
    OneOf,
    Struct,
    Structs,
    Text,
    Values,
    Whole,
    WholeOrRange,
)

MAX_RULES: Final = 32
"""Maximum number of rules of a failure policy."""


class FailureAction(StrEnum):
    """Action for a pod that failed."""

    RESTART = "Restart"
    IGNORE = "Ignore"
    FAIL_JOB = "FailJob"
    RESTART_TASK = "RestartTask"
    RESTART_JOB = "RestartJob"
    RESTART_IN_PLACE = "RestartInPlace"


class ExitCodeOperator(StrEnum):
    """Operator of a rule: an exit code must be among the values, or must not be."""

    IN = "In"
    NOT_IN = "NotIn"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCodes:
    """The exit codes that a rule matches."""

    operator: Annotated[
        ExitCodeOperator,
        Declared(
            kind=OneOf(ExitCodeOperator),
            about="Whether the exit code must be one of the values, or must not be.",
        ),
    ]
    values: Annotated[
        tuple[range, ...],
        Declared(
            kind=Values(WholeOrRange(0, 255), "exit code", 64, least=1),
            about='Codes, or ranges of codes such as "128-255"; other than 0 with `In`.',
        ),
    ]

    def fits(self, code: int) -> bool:
        """Return whether the rule matches a container that exited with that code."""
        is_among = any(code in numbers for numbers in self.values)
        return is_among is (self.operator is ExitCodeOperator.IN)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGrowth:
    """Memory growth of a replica's next pod after an OOM kill."""

    factor: Annotated[
        int,
        Declared(
            kind=Whole(2, 16),
            about="Factor of the new memory size, relative to the one that was too small.",
            is_filled_in=False,
            absent="`2`",
        ),
    ] = 2
    max_step: Annotated[
        str | int | None,
        Declared(kind=Amount(), about="Maximum growth at a time."),
    ] = None
    limit: Annotated[
        str | int | None,
        Declared(
            kind=Amount(),
            about="Maximum memory; an OOM kill at this size fails the job.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRule:
    """Action for pods that fail in one way."""

    tasks: Annotated[
        tuple[str, ...],
        Declared(
            kind=Labels("task", MAX_TASKS),
            about="Names of tasks (of a coordinated job, of roles). None: all.",
        ),
    ] = ()
    on_exit_codes: Annotated[
        ExitCodes | None,
        Declared(
            kind=Struct(ExitCodes),
            about="Matches the exit code of the container that failed first.",
        ),
    ] = None
    on_reasons: Annotated[
        tuple[str, ...],
        Declared(
            kind=Values(Text(128), "reason", 16),
            about="Matches the reason of that container, or of the pod: OOMKilled, Evicted, ...",
        ),
    ] = ()
    on_conditions: Annotated[
        tuple[str, ...],
        Declared(
            kind=Values(Text(316), "condition", 16),
            about="Matches conditions of the pod that are True: DisruptionTarget, ...",
        ),
    ] = ()
    action: Annotated[
        FailureAction,
        Declared(
            kind=OneOf(FailureAction),
            about="Restart replaces the pod. Ignore does so without counting it. RestartTask and "
            "RestartJob replace all pods of the task or the job. RestartInPlace restarts the "
            "container in its pod and notifies the other pods of the task.",
            more="[How](../how-to/process-groups.md#restarts-in-place). For a pod that has ended "
            "as a whole, the following rules apply.",
            is_filled_in=False,
            absent="`Restart`",
        ),
    ] = FailureAction.RESTART
    grow_memory: Annotated[
        MemoryGrowth | None,
        Declared(
            kind=Struct(MemoryGrowth),
            about="More memory for a container that was OOM-killed, in the same replica.",
        ),
    ] = None
    avoid_node: Annotated[
        bool,
        Declared(
            kind=Flag(),
            about="True excludes the node for that replica for an hour.",
            is_filled_in=False,
            absent="`false`",
        ),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePolicy:
    """Actions for failed pods, and limits on their number."""

    rules: Annotated[
        tuple[FailureRule, ...],
        Declared(
            kind=Structs(FailureRule, "rule", MAX_RULES),
            about="The first matching rule applies; without one the pod is replaced.",
            may_change=True,
        ),
    ] = ()
    replica_backoff_limit: Annotated[
        int | None,
        Declared(
            kind=Whole(0),
            about="Restarts allowed for each replica before the job is Failed.",
            may_change=True,
        ),
    ] = None
    reset_after_seconds: Annotated[
        int | None,
        Declared(
            kind=Whole(1),
            about="Run time of a pod after which a failure of its replica counts from zero.",
            may_change=True,
        ),
    ] = None

    def may_restart_in_place(self, task: str) -> bool:
        """Return whether containers of a task's pods can be restarted inside their pods."""
        return any(
            rule.action is FailureAction.RESTART_IN_PLACE and (not rule.tasks or task in rule.tasks)
            for rule in self.rules
        )
