"""How containers of pods are run: as processes, or by an engine; chosen once for a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from di_local.pods.mounts import Mounts
from di_local.pods.process import Process

Object = Mapping[str, Any]
INSIDE: Final = Path(__file__).parent.parent / "inside"
"""What every Python program of a pod loads (di_local.inside)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a container is started with.

    Attributes:
        name: no other container of this machine has it.
        image: the manifest's.
        command: empty: what the image itself says.
        environment: the pod's variables, and no others.
        working_dir: what the template says, as the program sees it.
    """

    name: str
    image: str
    command: Sequence[str]
    arguments: Sequence[str]
    environment: Mapping[str, str]
    mounts: Mounts
    working_dir: str | None
    log: Path


class Runtime(Protocol):
    """Starts containers, and commands inside of them."""

    def as_seen(self, mounts: Mounts, text: str) -> str:
        """A text that may have paths of mounts in it, as a program of the container sees them."""
        ...

    def entrypoint(self, image: str) -> Sequence[str]:
        """What a container of that image runs if its template has no command; empty: what the
        image itself says."""
        ...

    async def start(self, wanted: Start) -> Process:
        """Start a container; one that cannot be started has ended with the code of a shell, and
        its log says why."""
        ...

    async def execute(self, running: Start, words: Sequence[str], log: Path) -> Process:
        """Start a command where that container runs: a probe, or a hook."""
        ...


def with_inside(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables, with which Python loads what is of a pod's network."""
    path = [str(INSIDE), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": ":".join(path)}
