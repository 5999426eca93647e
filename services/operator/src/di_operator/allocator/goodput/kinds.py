"""Speeds of jobs on kinds of nodes on which they have not measured themselves.

Jobs of one namespace whose batches have the same bounds are taken for runs of one program. What
the other runs have measured on a kind then holds for a job too, with the noise of its own
gradient. Without such a run, the speed on a known kind is scaled by a ratio. The ratio is the
median over all jobs that have measured both kinds; without any, kinds count as equal.

Sia (SOSP'23, section 3.2) scales a job's throughput by such a ratio too. It measures one replica
of each job on each kind before the job starts; here no job runs only to be measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from statistics import median
from typing import NamedTuple, TypeAlias

from di_operator.allocator.goodput.curves import Curve, Curves, Question
from di_operator.allocator.goodput.objective import ratio_of
from di_operator.allocator.goodput.params import GoodputModel

# One replica alone: the size that every job that has measured a kind knows.
_ONE = (0, 1)
# At most so many runs of a program are used; more would not move the median.
_RUNS = 5

Ratios: TypeAlias = Mapping[tuple[str, str], float]
"""By pair of kinds: how many times faster one replica is on the second than on the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The sizes of a job that are of interest on nodes of one kind."""

    kind: str
    sizes: tuple[int, ...]
    """Rising, 0 first."""
    per_node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A job's measurements by kind of node, and the sizes for which speeds are needed.

    `anywhere` was measured on an unknown kind; it counts where nothing else was measured.
    """

    namespace: str
    anywhere: GoodputModel | None
    by_kind: Mapping[str, GoodputModel]
    ladders: Sequence[Ladder]

    @property
    def program(self) -> _Program | None:
        """Return the program that it is a run of; None: it does not report on which kinds it has
        measured itself.
        """
        for model in self.by_kind.values():
            return _Program(self.namespace, model.limits.initial, model.limits.maximum)
        return None


class _Program(NamedTuple):
    namespace: str
    initial: int
    maximum: int


class _Asked(NamedTuple):
    """A requested curve of a job: the index of its model, and the sizes of a kind."""

    job: str
    source: int
    at: str


class _Alone(NamedTuple):
    """The speed of one replica of a job on a kind."""

    job: str
    kind: str


def known_speeds(
    known: Mapping[str, Known], curves: Curves
) -> tuple[dict[tuple[str, str], Curve], Ratios]:
    """Return each job's speeds by job and kind, and the ratios of the kinds."""
    runs = _runs(known.values())
    sources = {
        (job, ladder.kind): _sources(knows, ladder.kind, runs)
        for job, knows in known.items()
        for ladder in knows.ladders
    }
    questions: dict[_Asked | _Alone, Question] = {
        _Asked(job, number, ladder.kind): Question(
            model=model, sizes=ladder.sizes, per_node=ladder.per_node
        )
        for job, knows in known.items()
        for ladder in knows.ladders
        for number, (_, model) in enumerate(sources[job, ladder.kind])
    }
    for job, knows in known.items():
        if len(knows.by_kind) > 1:
            for kind, model in knows.by_kind.items():
                questions[_Alone(job, kind)] = Question(model=model, sizes=_ONE, per_node=1)
    found = curves.ask(questions)
    ratios = _ratios(known, found)
    answer: dict[tuple[str, str], Curve] = {}
    for (job, kind), measured in sources.items():
        if len(measured) == 1 and measured[0][0] == kind:
            answer[job, kind] = found[_Asked(job, 0, kind)]
            continue
        guesses = [
            scaled(found[_Asked(job, number, kind)], ratios.get((on, kind), 1.0))
            for number, (on, _) in enumerate(measured)
        ]
        answer[job, kind] = guesses[0]
        if len(guesses) > 1:
            answer[job, kind] = tuple(map(median, zip(*guesses, strict=True)))
    return answer, ratios


def _runs(known: Iterable[Known]) -> dict[tuple[_Program, str], list[GoodputModel]]:
    """Return the measurements of the runs of each program, by kind."""
    runs: dict[tuple[_Program, str], list[GoodputModel]] = {}
    for knows in known:
        if (program := knows.program) is not None:
            for kind, model in knows.by_kind.items():
                runs.setdefault((program, kind), []).append(model)
    return runs


def _sources(
    knows: Known, kind: str, runs: Mapping[tuple[_Program, str], Sequence[GoodputModel]]
) -> list[tuple[str, GoodputModel]]:
    """Return the most informative models for a job on a kind, and the kinds that they were
    measured on.
    """
    if kind in knows.by_kind:
        return [(kind, knows.by_kind[kind])]
    program = knows.program
    if program is None:
        return [] if knows.anywhere is None else [(kind, knows.anywhere)]
    grad = next(iter(knows.by_kind.values())).grad
    if others := runs.get((program, kind)):
        return [(kind, replace(model, grad=grad)) for model in others[:_RUNS]]
    return sorted(knows.by_kind.items())


def scaled(curve: Curve, ratio: float) -> Curve:
    """Return a curve that is so many times as fast."""
    return curve if ratio == 1.0 else tuple(ratio * speed for speed in curve)


def _ratios(
    known: Mapping[str, Known], found: Mapping[_Asked | _Alone, Curve]
) -> dict[tuple[str, str], float]:
    seen: dict[tuple[str, str], list[float]] = {}
    for job, knows in known.items():
        for pair in permutations(sorted(knows.by_kind), 2):
            before, after = (found[_Alone(job, kind)][1] for kind in pair)
            if before and after:
                seen.setdefault(pair, []).append(ratio_of(after, before))
    return {pair: median(ratios) for pair, ratios in seen.items()}
