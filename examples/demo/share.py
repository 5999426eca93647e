"""Two jobs of examples/share on a node with slots for one of them: how they were arranged, and what
came of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import plotext
from matplotlib.figure import Figure

SLOT: Final = "example.org/slot"
"""What a learner takes of the node: the node is told to have SLOTS of it."""
SLOTS = MOST = 4
"""Slots of the node, and learners that one job can use."""
BATCH: Final = 64
GOODPUT: Final[Mapping[str, Any]] = {"restart_seconds": 3, "horizon_seconds": 30}
"""Arguments of the policy: of an elastic group a change takes seconds, and so does all of this."""
PERIOD_SECONDS: Final = 5
RATE_SECONDS: Final = 5.0
"""Over which samples a second are counted."""
WIDTH, HEIGHT = 78, 14
COLORS = ("tab:blue", "tab:orange")


@dataclass(frozen=True, slots=True)
class Work:
    """A job: its name, its steps, and so many seconds after the first it is made."""

    name: str
    steps: int
    after: float


JOBS: Final = (Work("early", 600, 0.0), Work("late", 800, 20.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """A policy, and the one size that jobs have under it; None: any from one learner on."""

    policy: str
    size: int | None
    words: str

    def values(self) -> tuple[str, ...]:
        """helm's arguments that install it."""
        arguments = json.dumps(GOODPUT if self.policy == "goodput" else {})
        return (
            *("--set", f"operator.allocator.policy={self.policy}"),
            *("--set-json", f"operator.allocator.arguments={arguments}"),
            *("--set", f"operator.allocator.periodSeconds={PERIOD_SECONDS}"),
        )

    def job(self, manifest: Mapping[str, Any], work: Work) -> dict[str, Any]:
        """The manifest as one of the two jobs."""
        made = copy.deepcopy(dict(manifest))
        made["metadata"]["name"] = work.name
        (task,) = made["spec"]["tasks"]
        if self.size is not None:
            task |= dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), self.size)
        for variable in task["template"]["spec"]["containers"][0]["env"]:
            if variable["name"] == "STEPS":
                variable["value"] = str(work.steps)
        return made


ARRANGEMENTS: Final = {
    "goodput": Arrangement(policy="goodput", size=None, words="resized by what they report"),
    "half": Arrangement(policy="fit", size=SLOTS // 2, words="half of the slots each"),
    "whole": Arrangement(policy="fit", size=SLOTS, words="all slots, one after the other"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen of a job so many seconds after the first one was made."""

    seconds: float
    granted: int
    """Learners that it has room for."""
    replicas: int
    """Those that are ready."""
    step: int
    waiting: float
    """The part of its time for which it waits: for room, or its learners for each other."""
    is_over: bool

    @classmethod
    def of(cls, job: Mapping[str, Any], seconds: float) -> Look:
        """Read what the API server has of the job."""
        status = job.get("status") or {}
        said = status.get("profilings") or {}
        replicas = int(status.get("readyReplicas") or 0)
        waiting = float(said.get("learnerWaitFrac") or 0.0) if replicas else 1.0
        is_over = "completionTimestamp" in status
        return cls(
            seconds=round(seconds, 1),
            granted=sum(map(len, (status.get("placement") or {}).values())),
            replicas=replicas,
            step=int(said.get("step") or 0),
            waiting=0.0 if is_over else waiting,
            is_over=is_over,
        )


@dataclass(slots=True)
class Course:
    """All looks at the jobs, by name."""

    looks: dict[str, list[Look]]

    def add(self, job: Mapping[str, Any], seconds: float) -> None:
        """One more."""
        look = Look.of(job, seconds)
        self.looks.setdefault(job["metadata"]["name"], []).append(look)

    @property
    def is_over(self) -> bool:
        """Whether all jobs have ended."""
        return len(self.looks) == len(JOBS) and all(
            found[-1].is_over for found in self.looks.values()
        )

    def ends(self) -> dict[str, float]:
        """When each job was first seen to have ended."""
        return {
            name: next((look.seconds for look in found if look.is_over), found[-1].seconds)
            for name, found in self.looks.items()
        }

    def resized(self) -> dict[str, int]:
        """How often each job that had room got other room."""
        found = {}
        for name, looks in self.looks.items():
            sizes = [look.granted for look in looks if look.granted]
            found[name] = sum(before != after for before, after in pairwise(sizes))
        return found

    def rates(self, name: str) -> list[float]:
        """Samples a second at each look, over the last RATE_SECONDS."""
        looks, first, rates = self.looks[name], 0, []
        for look in looks:
            while look.seconds - looks[first].seconds > RATE_SECONDS:
                first += 1
            passed = look.seconds - looks[first].seconds
            made = max(look.step - looks[first].step, 0)
            rates.append(BATCH * made / passed if passed else 0.0)
        return rates

    def lines(self) -> Iterator[str]:
        """A line for each job, and one for both."""
        ends, resized = self.ends(), self.resized()
        begun = {work.name: work.after for work in JOBS}
        for name, end in ends.items():
            took = f"{end - begun[name]:.0f} s after it was made"
            yield f"{name}: ended at {end:.0f} s, {took}; resized: {resized[name]}"
        yield f"both: {max(ends.values()):.0f} s"

    def draw_terminal(self) -> str:
        """The learners of each in characters."""
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.plot_size(WIDTH, HEIGHT)
        for marker, (name, looks) in zip(("braille", "x"), self.looks.items(), strict=False):
            seconds = [look.seconds for look in looks]
            plotext.plot(seconds, [look.replicas for look in looks], marker=marker, label=name)
        plotext.ylim(0, SLOTS + 0.5)
        plotext.xlabel("seconds; learners that are ready")
        text: str = plotext.uncolorize(plotext.build())
        return text

    def write(self, folder: Path, arrangement: str) -> None:
        """Keep the numbers, for `draw_all`."""
        folder.mkdir(parents=True, exist_ok=True)
        numbers = {each: [asdict(look) for look in looks] for each, looks in self.looks.items()}
        _file(folder, arrangement).write_text(json.dumps(numbers))

    @classmethod
    def read(cls, file: Path) -> Course:
        """What `write` has written."""
        numbers = json.loads(file.read_text())
        return cls({name: [Look(**each) for each in looks] for name, looks in numbers.items()})


def draw_all(folder: Path) -> Path:
    """Draw the courses kept in the folder, of the last run of each arrangement; returns where."""
    picture = folder / "share.png"
    kept = ((each, _file(folder, each)) for each in ARRANGEMENTS)
    courses = [(each, Course.read(file)) for each, file in kept if file.exists()]
    _draw([(f"{each}: {ARRANGEMENTS[each].words}", course) for each, course in courses], picture)
    return picture


def _file(folder: Path, arrangement: str) -> Path:
    return folder / f"share-{arrangement}.json"


def _draw(courses: Sequence[tuple[str, Course]], picture: Path) -> None:
    """Learners, waiting and samples a second over time: a column for each course, one time axis."""
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(3.2 * len(courses) + 2, 6), layout="constrained")
        grid = figure.subplots(3, len(courses), sharex=True, sharey="row", squeeze=False)
        for column, (title, course) in enumerate(courses):
            learners, waiting, rate = grid[:, column]
            for color, (name, looks) in zip(COLORS, course.looks.items(), strict=False):
                end = course.ends()[name]
                seconds = [look.seconds for look in looks if look.seconds <= end]
                shown = looks[: len(seconds)]
                sizes, shares = [x.replicas for x in shown], [x.waiting for x in shown]
                learners.step(seconds, sizes, where="post", color=color, label=name)
                waiting.plot(seconds, shares, color=color)
                rate.plot(seconds, course.rates(name)[: len(seconds)], color=color)
                learners.axvline(end, color=color, linestyle=":")
            learners.set(title=title, ylim=(0, SLOTS + 0.5))
            waiting.set(ylim=(0, 1.05))
            rate.set(xlabel="seconds")
        for axes, label in zip(grid[:, 0], ("learners", "waiting", "samples/s"), strict=True):
            axes.set_ylabel(label)
        grid[0, 0].legend(loc="lower left")
        figure.savefig(picture, dpi=110)
