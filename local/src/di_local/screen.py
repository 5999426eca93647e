"""The screen output of a run: a line for each change. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.control import strip_control_codes
from rich.style import Style
from rich.text import Text

from di_api.field_error import items, mapping
from di_api.phase import Phase
from di_api.profilings import RETURN, find_metric
from di_api.spec.coordinated import Role
from di_local.api.objects import Change

Object = Mapping[str, Any]
_STYLES: Final = {
    Phase.RUNNING: "green",
    Phase.SUCCEEDED: "bold green",
    Phase.FAILED: "bold red",
    Phase.RESTARTING: "yellow",
    Phase.RESCHEDULING: "yellow",
}
_SAID_BY_PHASE: Final = "Job"
"""Prefix of the reasons of events that repeat the phase."""
_REPORT_SECONDS: Final = 10.0
"""Minimum seconds between two lines in which only the report is new."""
_COLUMN: Final = 12
_COLOURS: Final = ("cyan", "magenta", "yellow", "blue", "green", "bright_cyan", "bright_magenta")


@dataclass(slots=True)
class Screen:
    """Converts changes of the store into lines.

    Attributes:
        elapsed: returns the seconds since the run began.
    """

    elapsed: Callable[[], float]
    _phase: str = ""
    _ready: str = ""
    _report: list[str] = field(default_factory=list)
    _told: float = 0.0
    _counts: dict[str, object] = field(default_factory=dict)

    def lines(self, change: Change) -> Iterator[Text]:
        """Yield the lines for a change."""
        if change.after is None:
            return
        if change.plural == "dijobs":
            yield from self._of_job(change.after)
        elif change.plural == "events":
            yield from self._of_event(change.after)

    def _of_job(self, job: Object) -> Iterator[Text]:
        status = job.get("status") or {}
        counts = replicas(job["spec"])
        for task, count in counts.items():
            before = self._counts.get(task, count)
            if before != count:
                yield self._line("scaled", f"{task} {before} -> {count}", "cyan")
        self._counts = counts
        if not (phase := status.get("phase")):
            return
        ready = f"{status.get('readyReplicas', 0)}/{status.get('replicas', 0)} ready"
        shown = "" if Phase(phase).is_finished else ready
        report = reported(mapping(status.get("profilings")), has_collectors=len(counts) > 1)
        is_new = (phase, shown) != (self._phase, self._ready)
        if is_new or (report != self._report and self._is_due(is_first=not self._report)):
            self._phase, self._ready, self._report = phase, shown, report
            self._told = self.elapsed()
            more = "  ".join([*([f"{shown:<{_COLUMN}}"] if shown else []), *report]).rstrip()
            yield self._line(phase, more, _STYLES.get(Phase(phase), ""))

    def _is_due(self, *, is_first: bool) -> bool:
        """Return whether a report gets a line: the first one, and then one per interval."""
        return is_first or self.elapsed() - self._told >= _REPORT_SECONDS

    def _of_event(self, event: Object) -> Iterator[Text]:
        reason = str(event.get("reason", ""))
        if not reason.startswith(_SAID_BY_PHASE) or event.get("type") == "Warning":
            style = "red" if event.get("type") == "Warning" else "dim"
            yield self._line(reason, str(event.get("message", "")), style)

    def _line(self, what: str, more: str, style: str) -> Text:
        seconds = int(self.elapsed())
        clock = f"{seconds // 60:3d}:{seconds % 60:02d}"
        return Text.assemble(
            (f"{clock}  ", "dim"), (f"{what:<12}  " if more else what, style), more
        )


def reported(profilings: Object, *, has_collectors: bool) -> list[str]:
    """Return the parts of a job's report for a person: progress, return and waiting of the learner,
    the return under any spelling of its name.

    Args:
        has_collectors: whether the learner can wait for other pods.
    """
    far = _far("step", profilings, "step", "totalSteps")
    waits = profilings.get("learnerWaitFrac")
    returned = profilings.get(find_metric(profilings, RETURN) or RETURN)
    return [
        *(far or _far("env step", profilings, "envSteps", "maxEnvSteps")),
        *([f"return {_number(returned)}"] if _number(returned) else []),
        *([f"learner waits {waits:.0%}"] if has_collectors and _number(waits) else []),
    ]


def _far(name: str, profilings: Object, key: str, most: str) -> list[str]:
    step, total = _number(profilings.get(key)), _number(profilings.get(most))
    return [f"{name} {step}" + (f" of {total}" if total else "")] if step else []


def _number(value: object) -> str:
    """Return a number with at most one decimal; empty for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return f"{value:,.1f}".removesuffix(".0")


def replicas(spec: Object) -> dict[str, object]:
    """Return the wanted number of pods by task, from a spec of any shape; with a coordinator, by
    role.
    """
    coordinated = mapping(spec.get("coordinated"))
    if not coordinated:
        tasks = map(mapping, items(spec.get("tasks")))
        return {
            str(each.get("name") or each.get("type")): each.get("replicas", 1) for each in tasks
        }
    asked = Counter(str(mapping(each).get("role")) for each in items(coordinated.get("replicas")))
    asked.update({role: 0 for role in (Role.COLLECTOR, Role.LEARNER) if role in coordinated})
    return {Role.COORDINATOR: 1, **asked}


def log_line(pod: str, rank: int, text: str) -> Text:
    """Return one output line of a pod, in the color of its rank."""
    return Text.assemble((f"{pod:<24} ", _COLOURS[rank % len(_COLOURS)]), text)


def log_lines(pod: str, rank: int, lines: Sequence[str], *, has_colours: bool) -> str:
    """Return output lines of a pod as `log_line` does, for many of them: printing each costs more
    than the program that wrote it.
    """
    name = f"{pod:<24} "
    if has_colours:
        style = Style.parse(_COLOURS[rank % len(_COLOURS)])
        name = style.render(name)
    return "".join([f"{name}{strip_control_codes(line)}\n" for line in lines])
