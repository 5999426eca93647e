"""`spec` of a DISweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

from di_api.dns_names import MAX_LABEL
from di_api.spec.bounds import MAX_INT32
from di_api.spec.declared import Declared
from di_api.spec.free_values import Choice, Number
from di_api.spec.kinds import (
    Flag,
    JobTemplate,
    Label,
    OneOf,
    Struct,
    Structs,
    Text,
    Values,
    Whole,
)

MAX_TRIALS: Final = 10_000
MAX_PARALLEL: Final = 1024
MAX_PARAMETERS: Final = 16
MAX_VALUES: Final = 256
MAX_SEEDS: Final = 64
STEP: Final = "step"


class Goal(StrEnum):
    """The best value of an objective: its largest or its smallest."""

    MAXIMIZE = "Maximize"
    MINIMIZE = "Minimize"


class Sampler(StrEnum):
    """How the parameters of the next trial are chosen."""

    RANDOM = "Random"
    QUASI_RANDOM = "QuasiRandom"
    GRID = "Grid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The number that decides which trial is the best."""

    metric: Annotated[
        str,
        Declared(
            kind=Text(120),
            about="Name of a number in the reports of the jobs; its last value counts.",
        ),
    ]
    goal: Annotated[
        Goal,
        Declared(
            kind=OneOf(Goal), about="Whether the largest or the smallest value is the best one."
        ),
    ] = Goal.MAXIMIZE


_Progress: TypeAlias = Annotated[
    str,
    Declared(
        kind=Text(120),
        about="Name of the number in the reports that counts the steps, such as `envSteps`.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStopping:
    """Asynchronous successive halving: which trials are stopped before their programs end."""

    first_step: Annotated[
        int,
        Declared(
            kind=Whole(1),
            about="Step at which trials are compared first. The next comparison is at `reduction` "
            "times as many steps, and so on.",
        ),
    ]
    reduction: Annotated[
        int,
        Declared(
            kind=Whole(2, 16),
            about="One of so many trials continues after each comparison.",
        ),
    ] = 3
    progress: _Progress = STEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Population-based training: the worst trials are replaced by changed copies of the best."""

    size: Annotated[
        int, Declared(kind=Whole(2, MAX_PARALLEL), about="Number of trials that are compared.")
    ]
    interval: Annotated[
        int, Declared(kind=Whole(1), about="Number of steps between two comparisons.")
    ]
    progress: _Progress = STEP
    quantile: Annotated[
        float,
        Declared(
            kind=Number(above=0),
            about="Share of the trials that is replaced at a comparison, at least one; 0.5 at "
            "most.",
        ),
    ] = 0.25
    perturbation: Annotated[
        float,
        Declared(
            kind=Number(above=0),
            about="A copy's numbers are larger or smaller by this share; below 1.",
        ),
    ] = 0.2
    resample: Annotated[
        float,
        Declared(
            kind=Number(),
            about="Probability with which a parameter of a copy is drawn again instead.",
        ),
    ] = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """All numbers from one to another."""

    min: Annotated[float, Declared(kind=Number(), about="Smallest value.")]
    max: Annotated[float, Declared(kind=Number(), about="Largest value.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedRange:
    """Numbers at equal distances."""

    min: Annotated[float, Declared(kind=Number(), about="Smallest value.")]
    max: Annotated[float, Declared(kind=Number(), about="Largest value.")]
    step: Annotated[float, Declared(kind=Number(above=0), about="Distance of two values.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRange:
    """Whole numbers at equal distances."""

    min: Annotated[int, Declared(kind=Whole(-MAX_INT32), about="Smallest value.")]
    max: Annotated[int, Declared(kind=Whole(-MAX_INT32), about="Largest value.")]
    step: Annotated[int, Declared(kind=Whole(1), about="Distance of two values.")] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The place of a parameter's value: exactly one of `argument`, `environment` and `field`."""

    argument: Annotated[
        str | None,
        Declared(
            kind=Text(253),
            about="Option of the program, such as `--lr`; its value in the template is replaced.",
        ),
    ] = None
    environment: Annotated[
        str | None,
        Declared(kind=Text(253), about="Environment variable of the main container."),
    ] = None
    field: Annotated[
        str | None,
        Declared(
            kind=Text(512),
            about="Path of a field below `template.spec`, such as `tasks[collector].replicas`.",
            more="A list item is named by its index, or by its `name` or `type`.",
        ),
    ] = None
    task: Annotated[
        str | None,
        Declared(
            kind=Label("task"),
            about="Task whose program gets the argument or the variable.",
            absent="all tasks",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(Target):
    """A dimension of the space: where its value is written, and exactly one set of values."""

    name: Annotated[
        str, Declared(kind=Text(MAX_LABEL), about="Name of the parameter in lists of trials.")
    ]
    values: Annotated[
        tuple[str | float | bool, ...],
        Declared(kind=Values(Choice(), "value", MAX_VALUES), about="The values, of any type."),
    ] = ()
    uniform: Annotated[
        Range | None, Declared(kind=Struct(Range), about="Numbers, all equally likely.")
    ] = None
    log_uniform: Annotated[
        Range | None,
        Declared(kind=Struct(Range), about="Positive numbers whose logarithms are equally likely."),
    ] = None
    int_: Annotated[
        WholeRange | None, Declared(kind=Struct(WholeRange), about="Whole numbers.")
    ] = None
    quniform: Annotated[
        SteppedRange | None,
        Declared(kind=Struct(SteppedRange), about="Numbers at equal distances."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds(Target):
    """Several trials for each choice of parameters, which differ in a seed: 0, 1, 2 and so on."""

    count: Annotated[
        int, Declared(kind=Whole(1, MAX_SEEDS), about="Number of trials of each choice.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSpec:
    """The spec of a sweep, with defaults."""

    objective: Annotated[
        Objective,
        Declared(kind=Struct(Objective), about="The number that decides which trial is the best."),
    ]
    template: Annotated[
        Mapping[str, Any],
        Declared(
            kind=JobTemplate(),
            about="The job of every trial: `spec` of a DIJob, and `metadata` with labels and "
            "annotations.",
        ),
    ]
    parameters: Annotated[
        tuple[Parameter, ...],
        Declared(
            kind=Structs(Parameter, "parameter", MAX_PARAMETERS),
            about="The parameters in which trials differ.",
        ),
    ] = ()
    seeds: Annotated[
        Seeds | None,
        Declared(
            kind=Struct(Seeds),
            about="Several trials for each choice of parameters, compared by their mean.",
        ),
    ] = None
    sampler: Annotated[
        Sampler,
        Declared(
            kind=OneOf(Sampler),
            about="`Random` draws each choice alone, `QuasiRandom` spreads them evenly (Halton), "
            "`Grid` tries all.",
        ),
    ] = Sampler.RANDOM
    random_seed: Annotated[
        int,
        Declared(
            kind=Whole(0),
            about="Choices are derived from it, so the same sweep has the same trials again.",
        ),
    ] = 0
    max_trials: Annotated[
        int | None,
        Declared(
            kind=Whole(1, MAX_TRIALS),
            about="Number of trials, with seeds and copies.",
            absent="required, except with `Grid`: all, and with `population`: no limit",
        ),
    ] = None
    parallelism: Annotated[
        int,
        Declared(
            kind=Whole(1, MAX_PARALLEL),
            about="Number of trials at the same time.",
            may_change=True,
        ),
    ] = 2
    stop: Annotated[
        bool,
        Declared(
            kind=Flag(),
            about="Stops all trials for good; the best one so far is the result.",
            may_change=True,
        ),
    ] = False
    max_seconds: Annotated[
        int | None,
        Declared(
            kind=Whole(1),
            about="Seconds after which all trials are stopped.",
            may_change=True,
            absent="no limit",
        ),
    ] = None
    max_gpu_hours: Annotated[
        float | None,
        Declared(
            kind=Number(above=0),
            about="GPU-hours that the trials may take together; then they are stopped.",
            may_change=True,
            absent="no limit",
        ),
    ] = None
    max_failed_trials: Annotated[
        int,
        Declared(
            kind=Whole(0),
            about="The sweep ends when more trials than this have failed.",
            may_change=True,
        ),
    ] = 3
    early_stopping: Annotated[
        EarlyStopping | None,
        Declared(
            kind=Struct(EarlyStopping),
            about="Stops trials whose values are not among the best at the same step.",
            absent="every trial runs to its end",
        ),
    ] = None
    population: Annotated[
        Population | None,
        Declared(
            kind=Struct(Population),
            about="Replaces the worst trials by copies of the best ones, with their checkpoints "
            "and changed parameters.",
            absent="no trial is copied",
        ),
    ] = None

    @property
    def progress(self) -> str:
        """Return the name of the number that counts the steps."""
        rule = self.population or self.early_stopping
        return STEP if rule is None else rule.progress
