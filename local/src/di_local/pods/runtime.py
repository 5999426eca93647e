"""The interface for running containers, as processes or by an engine; one choice for a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from di_local.pods.mounts import Mounts
from di_local.pods.process import Process

Object = Mapping[str, Any]
INSIDE: Final = Path(__file__).parent.parent / "inside"
"""Directory of the modules that every Python program of a pod loads (di_local.inside)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start parameters of a container.

    Attributes:
        name: unique on this machine.
        image: the manifest's.
        command: empty: that of the image.
        environment: the pod's variables only.
        working_dir: the template's, as the program sees it.
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
        """Return a text with paths of mounts in the form that a program of the container sees."""
        ...

    def entrypoint(self, image: str) -> Sequence[str]:
        """Return the command of an image, for a template without one; empty: the engine uses the
        image's own.
        """
        ...

    async def start(self, wanted: Start) -> Process:
        """Start a container; one that cannot be started counts as ended with a shell's exit code,
        and its log has the reason.
        """
        ...

    async def execute(self, running: Start, words: Sequence[str], log: Path) -> Process:
        """Start a command inside a running container, for a probe or a hook."""
        ...


def with_inside(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, extended so that Python loads the imitation of a pod's network."""
    path = [str(INSIDE), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": ":".join(path)}
