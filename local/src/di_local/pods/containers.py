"""Containers of a container engine, in the network of this machine.

They are as in a cluster: images with their own programs, and mounted volumes. Only the network
differs: pods have loopback addresses, as processes have (di_local.addresses).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from typing_extensions import override

from di_local.engine import Engine
from di_local.images import Images
from di_local.pods.mounts import Mounts
from di_local.pods.process import Process, start
from di_local.pods.runtime import INSIDE, Runtime, Start, with_inside
from di_local.watchdog import MARK

_GONE: Final = 30.0
"""Maximum seconds for an engine to remove a container."""


class Containers(Runtime):
    """Runs containers.

    Args:
        directory: local directory with their programs, where they start; None: that of the image.
        image: image of all containers; None: each its own.
        images: the commands of images that `image` replaces.
        variables: variables that each image sets.
        hosts: the file with the names of pods.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        directory: Path | None,
        image: str | None,
        images: Images,
        variables: Mapping[str, Mapping[str, str]],
        hosts: Path,
    ) -> None:
        self._engine = engine
        self._directory = directory
        self._image = image
        self._images = images
        self._variables = variables
        self._hosts = hosts

    @override
    def as_seen(self, mounts: Mounts, text: str) -> str:
        return text

    @override
    def entrypoint(self, image: str) -> Sequence[str]:
        return self._images.entrypoint(image) if self._image is not None else ()

    @override
    async def start(self, wanted: Start) -> Process:
        image = self._image or wanted.image
        known = self._images.environ(wanted.image) if self._image is not None else {}
        environment = with_inside(
            {
                "PYTHONUNBUFFERED": "1",
                **self._variables.get(image, {}),
                **known,
                **wanted.environment,
            }
        )
        passed, options = _passed(environment)
        command, *first = wanted.command or [""]
        words = [
            *(*self._engine.command, "run", "--rm", "--name", wanted.name),
            *("--label", f"{MARK}={wanted.environment[MARK]}"),
            *("--network", "host", "--security-opt", "label=disable", *self._engine.as_caller),
            *options,
            *self._mounted(wanted.mounts),
            *self._placed(wanted.working_dir),
            *self._engine.options,
            *(("--entrypoint", command) if command else ()),
            *(image, *first, *wanted.arguments),
        ]
        process = await start(words, environment=passed, directory=Path("/"), log=wanted.log)
        return _Contained(process, [*self._engine.command, "rm", "--force", wanted.name])

    @override
    async def execute(self, running: Start, words: Sequence[str], log: Path) -> Process:
        return await start(
            [*self._engine.command, "exec", running.name, *words],
            environment=os.environ,
            directory=Path("/"),
            log=log,
        )

    def _mounted(self, mounts: Mounts) -> Iterator[str]:
        for inside, place in mounts.places.items():
            yield from ("--mount", f"type=bind,src={_made(place)},dst={inside}")
        for place in (INSIDE, self._hosts.parent):
            yield from ("--mount", f"type=bind,src={place},dst={place},ro")
        if self._directory is not None:
            yield from ("--mount", f"type=bind,src={self._directory},dst={self._directory}")

    def _placed(self, working_dir: str | None) -> Sequence[str]:
        directory = working_dir or self._directory
        return () if directory is None else ("--workdir", str(directory))


class _Contained(Process):
    """A client process of an engine, and the container that it has started."""

    def __init__(self, client: Process, remove: Sequence[str]) -> None:
        super().__init__(client.process, client.code)
        self._remove = remove
        self._killed = False

    @override
    async def wait(self) -> int:
        code = await super().wait()
        if self._killed:
            # Killing the client does not remove its container.
            await self._gone()
        return code

    @override
    def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self._killed = True
        super().kill()

    async def _gone(self) -> None:
        removing = await asyncio.create_subprocess_exec(
            *self._remove,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_GONE):
                await removing.wait()
        except TimeoutError:
            # The watchdog tries once more after the run.
            removing.kill()
            await removing.wait()


def _passed(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables of the engine's client, and its options that pass on the container's.

    Values are not visible in the list of processes, except those that the client itself reads.
    """
    passed, options = dict(os.environ), list[str]()
    for name, value in environment.items():
        if name in os.environ:
            options += ["--env", f"{name}={value}"]
        else:
            passed[name] = value
            options += ["--env", name]
    return passed, options


def _made(place: Path) -> Path:
    """Return a place, created as a directory if it does not exist: an engine mounts only existing
    places.
    """
    if not place.exists():
        place.mkdir(parents=True)
    return place
