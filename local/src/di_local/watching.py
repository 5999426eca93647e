"""The observed state of a running job."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from di_api.names import ANNOTATION_RANK
from di_api.phase import Phase
from di_api.timestamps import format_time
from di_kube.resources import DIJOBS, PODS
from di_local.api.objects import Change, Object
from di_local.logs import last_lines
from di_local.pods.kubelet import Kubelet
from di_local.screen import Screen, log_line, log_lines

_LAST_LINES: Final = 20
_START_ERROR: Final = re.compile(
    r"(?:ModuleNotFoundError|ImportError|SyntaxError|IndentationError|TabError): "
)


class Watched:
    """A subscriber of the store that records the job and shows changes.

    Attributes:
        job: its last state.
        cannot_start: the error for which the program of a pod can never start; empty without one.
        show_logs: writes the output of pods; None: it is not shown.
        ended: set once it has succeeded or failed, or is deleted.
    """

    def __init__(
        self,
        job: Object,
        kubelet: Kubelet,
        screen: Screen,
        say: Callable[[Text], None],
        *,
        show_logs: Callable[[str], object] | None,
        has_colours: bool = False,
    ) -> None:
        self.job = job
        self.ended = asyncio.Event()
        self._kubelet = kubelet
        self._screen = screen
        self._say = say
        self._show_logs = show_logs
        self._has_colours = has_colours
        self._ranks: dict[str, int] = {}
        self._failed: tuple[str, Path] | None = None
        self.cannot_start = ""
        self._cause = ""

    @property
    def phase(self) -> str:
        """Return the job's phase; empty before it has one."""
        return str((self.job.get("status") or {}).get("phase") or "")

    def last_job(self, phase: str, now: datetime) -> Object:
        """Return the job as it is kept when the run is over.

        A job whose program cannot start gets the condition that the operator has for a failed
        one, which it did not live to write.
        """
        status = {**(self.job.get("status") or {}), "phase": phase}
        if self.cannot_start:
            failed = {
                "type": Phase.FAILED,
                "status": "True",
                "reason": "JobFailed",
                "message": self._cause,
                "lastTransitionTime": format_time(now),
            }
            others = [each for each in status.get("conditions") or () if not _is_failed(each)]
            status["conditions"] = [*others, failed]
        return {**self.job, "status": status}

    def on_change(self, change: Change) -> None:
        """Process a change of the store."""
        for line in self._screen.lines(change):
            self._say(line)
        if change.plural == DIJOBS.plural:
            if change.after is None:
                self.ended.set()
            else:
                self.job = change.after
                if self.phase and Phase(self.phase).is_finished:
                    self.ended.set()
        elif change.plural == PODS.plural and change.after is not None:
            self._on_pod(change.after)

    def on_lines(self, pod: str, lines: Sequence[str]) -> None:
        """Process lines of a pod's output."""
        if self._show_logs is not None:
            rank = self._ranks.get(pod, 0)
            self._show_logs(log_lines(pod, rank, lines, has_colours=self._has_colours))

    def explain(self) -> None:
        """Show the last lines of the container that failed last."""
        if self._failed is None:
            return
        pod, path = self._failed
        self._say(Text(f"last lines of {pod}, of {path}:", "dim"))
        for line in last_lines(path, _LAST_LINES):
            self._say(log_line(pod, self._ranks.get(pod, 0), line))

    def _on_pod(self, pod: Object) -> None:
        metadata, status = pod["metadata"], pod.get("status") or {}
        # Pods that a coordinator requests have no rank, so their order of creation counts.
        known = self._ranks.get(metadata["name"], len(self._ranks))
        rank = (metadata.get("annotations") or {}).get(ANNOTATION_RANK, known)
        self._ranks[metadata["name"]] = int(rank)
        if metadata.get("deletionTimestamp"):
            return
        for kind in ("initContainerStatuses", "containerStatuses"):
            for container in status.get(kind) or ():
                ended = container["state"].get("terminated") or {}
                path = self._kubelet.log(pod, container["name"])
                if ended.get("exitCode") and path is not None:
                    self._failed = metadata["name"], path
                    self._judge_start(metadata["name"], path, int(ended["exitCode"]))

    def _judge_start(self, pod: str, path: Path, code: int) -> None:
        """End the run if a program fails to import before the job's first report."""
        has_reported = bool((self.job.get("status") or {}).get("profilings"))
        error = start_error(last_lines(path, 1))
        if error and not has_reported and not self.cannot_start:
            self.cannot_start = error
            self._cause = f"1 pod failed, {pod} first: exit code {code}; its last lines: {error}"
            self._say(Text(f"{pod} cannot start, and is not restarted: {error}", "red"))
            self.ended.set()


def _is_failed(condition: Mapping[str, Any]) -> bool:
    return bool(condition.get("type") == Phase.FAILED)


def start_error(last: Sequence[str]) -> str:
    """Return the error of Python, by the last line of a log, that no restart can mend; else an
    empty text.
    """
    return last[-1] if last and _START_ERROR.match(last[-1]) else ""
