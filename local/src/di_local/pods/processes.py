"""Containers as processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from typing_extensions import override

from di_local.images import Images
from di_local.pods.environment import inherited
from di_local.pods.mounts import Mounts
from di_local.pods.mpi import is_of_mpi, mpi_variables
from di_local.pods.process import Process, start
from di_local.pods.runtime import Runtime, Start, with_inside


class Processes(Runtime):
    """Runs commands of this machine, without images and mounts.

    Args:
        environ: the user's variables.
        directory: default working directory.
        images: commands and variables of images.
    """

    def __init__(self, *, environ: Mapping[str, str], directory: Path, images: Images) -> None:
        self._environ = environ
        self._directory = directory
        self._images = images

    @override
    def as_seen(self, mounts: Mounts, text: str) -> str:
        return mounts.replaced(text)

    @override
    def entrypoint(self, image: str) -> Sequence[str]:
        return self._images.entrypoint(image)

    @override
    async def start(self, wanted: Start) -> Process:
        return await self._run([*wanted.command, *wanted.arguments], wanted, wanted.log)

    @override
    async def execute(self, running: Start, words: Sequence[str], log: Path) -> Process:
        return await self._run([running.mounts.replaced(word) for word in words], running, log)

    async def _run(self, words: Sequence[str], wanted: Start, log: Path) -> Process:
        there = wanted.working_dir
        return await start(
            words,
            environment=self._environment(wanted),
            directory=self._directory if there is None else Path(there),
            log=log,
        )

    def _environment(self, wanted: Start) -> dict[str, str]:
        found = {
            **inherited(self._environ),
            "PYTHONUNBUFFERED": "1",
            **self._images.environ(wanted.image),
        }
        if is_of_mpi(wanted.environment):
            found |= mpi_variables(wanted.log.parent, path=found.get("PATH", os.defpath))
        return with_inside({**found, **wanted.environment})
