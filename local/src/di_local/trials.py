"""The screen output of a sweep: a line for each trial that has ended. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.text import Text

from di_api.phase import Phase
from di_api.sweeps import Space, SweepSpec, Trial, trial_name

STOPPED: Final = "Stopped"
_STYLES: Final = {Phase.SUCCEEDED: "green", Phase.FAILED: "red", STOPPED: "yellow"}
_LONGEST: Final = 14
"""Width of the column of values, and of that of steps."""


class TrialTable:
    """Lines with columns of fixed widths, because a table that grows cannot change its widths."""

    def __init__(self, spec: SweepSpec, sweep: str) -> None:
        self._spec, self._sweep = spec, sweep
        last = trial_name(sweep, Space(spec).last_index)
        self._names = max(len(last), len("TRIAL"))
        self._values = max(_LONGEST, len(spec.objective.metric))
        self._progress = spec.progress
        self._steps = max(_LONGEST, len(self._progress))

    def header(self) -> str:
        """Return the first line."""
        metric, progress = self._spec.objective.metric, self._progress
        return (
            f"{'TIME':>6}  {'TRIAL':<{self._names}}  {'STATE':<9}  {progress:>{self._steps}}  "
            f"{metric:>{self._values}}  PARAMETERS"
        )

    def line(
        self, trial: Trial, parameters: Mapping[str, Any], *, elapsed: float, is_best: bool
    ) -> Text:
        """Return the line of a trial that has ended."""
        state, seconds = self.state(trial), int(elapsed)
        style = _STYLES.get(state, "")
        return Text.assemble(
            (f"{seconds // 60:3d}:{seconds % 60:02d}  ", "dim"),
            f"{trial_name(self._sweep, trial.index):<{self._names}}  ",
            (f"{state:<9}  ", style),
            f"{number(trial.step):>{self._steps}}  {number(trial.value):>{self._values}}  ",
            written(parameters),
            ("  best so far" if is_best else "", "bold green"),
        )

    def state(self, trial: Trial) -> str:
        """Return the state of a trial: its phase, or that it was stopped."""
        is_stopped = trial.stopped and not trial.phase.is_finished
        return STOPPED if is_stopped else trial.phase.value

    def is_failed(self, trial: Trial) -> bool:
        """Return whether a trial has failed."""
        return trial.phase is Phase.FAILED


def number(value: float | None) -> str:
    """Return a number for a person; a dash for none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e12 else f"{value:.6g}"


def written(parameters: Mapping[str, Any]) -> str:
    """Return parameters in one line."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())
