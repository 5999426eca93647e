"""The container engine of this machine: podman, docker, or nerdctl, which have the same options."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

KNOWN: Final = ("podman", "docker", "nerdctl")
_PODMAN: Final = "podman"
_SECONDS: Final = 60.0


class NoEngine(Exception):
    """There is no engine, or it does not work; the message has its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The command of a container engine.

    Attributes:
        command: with global options.
        options: options for each container.
    """

    command: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of its program."""
        return Path(self.command[0]).name

    @property
    def as_caller(self) -> list[str]:
        """Return the options of `run` with which programs run as the present user, and own their
        files.

        A rootless podman maps users: there `--user` alone would be a subordinate one.
        """
        user = os.geteuid()
        if user != 0 and self.name == _PODMAN:
            return ["--userns=keep-id"]
        return ["--user", f"{user}:{os.getegid()}"]

    def image_environment(self, image: str, say: Callable[[str], None]) -> dict[str, str]:
        """Return the variables that an image sets; it is pulled if necessary.

        Raises:
            NoEngine: there is no such image, or the engine does not work.
        """
        inspect = ["image", "inspect", "--format", "{{json .Config.Env}}", image]
        found = self._ask(*inspect)
        if found.returncode:
            say(f"pulling {image}")
            # No timeout: the engine's own progress is on the terminal, and Ctrl-C ends it.
            pulled = subprocess.run(
                [*self.command, "pull", image], stderr=subprocess.PIPE, text=True, check=False
            )
            if pulled.returncode:
                raise NoEngine(
                    f"{self.name} has no image {image} and cannot pull it: {_last(pulled.stderr)}"
                )
            found = self._ask(*inspect)
        try:
            variables: Any = json.loads(found.stdout or "null") or []
            return dict(each.split("=", 1) for each in variables)
        except ValueError as error:
            said = _last(found.stderr or found.stdout)
            raise NoEngine(f"{self.name} does not say what is in {image}: {said}") from error

    def check(self) -> None:
        """Check that the engine works.

        Raises:
            NoEngine: it does not.
        """
        found = self._ask("ps", "--quiet")
        if found.returncode:
            raise NoEngine(f"{self.name} does not work: {_last(found.stderr)}")

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [*self.command, *words],
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoEngine(f"{self.name}: {error}") from error


def find_engine(given: str | None, options: Sequence[str], environ: Mapping[str, str]) -> Engine:
    """Return the requested engine, or the first that is installed.

    Args:
        given: its command; None: any.

    Raises:
        NoEngine: there is none, or it does not work.
    """
    words = shlex.split(given or "")
    for name in [words[0]] if words else KNOWN:
        path = shutil.which(name, path=environ.get("PATH"))
        if path is not None:
            engine = Engine(command=(path, *words[1:]), options=tuple(options))
            engine.check()
            return engine
    wanted = f"no {words[0]}" if words else f"none of {', '.join(KNOWN)}"
    raise NoEngine(f"there is {wanted} on this machine; without --image jobs run as processes")


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
