"""What a run says while it runs: a line for each thing that has changed. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rich.text import Text

from di_api.field_error import items, mapping
from di_api.phase import Phase
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
"""Begins the reasons of events that say no more than the phase."""
_COLOURS: Final = ("cyan", "magenta", "yellow", "blue", "green", "bright_cyan", "bright_magenta")


@dataclass(slots=True)
class Screen:
    """Turns changes of the store into lines.

    Attributes:
        elapsed: seconds since the run began.
    """

    elapsed: Callable[[], float]
    _phase: str = ""
    _ready: str = ""
    _counts: dict[str, object] = field(default_factory=dict)

    def lines(self, change: Change) -> Iterator[Text]:
        """What is worth telling of a change."""
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
        phase = status.get("phase") or ""
        ready = f"{status.get('readyReplicas', 0)}/{status.get('replicas', 0)} ready"
        shown = ready if phase and not Phase(phase).is_finished else ""
        if phase and (phase, shown) != (self._phase, self._ready):
            self._phase, self._ready = phase, shown
            yield self._line(phase, shown, _STYLES.get(Phase(phase), ""))

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


def replicas(spec: Object) -> dict[str, object]:
    """How many pods of each task there are to be, of a spec of any shape; with a coordinator, of
    each role, which is what it has asked for."""
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
    """One line that a pod said, in the colour of its rank."""
    return Text.assemble((f"{pod:<24} ", _COLOURS[rank % len(_COLOURS)]), text)
