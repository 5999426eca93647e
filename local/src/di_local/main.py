"""The command `di run`, also available as `python -m di_local run`."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from di_api.field_error import mapping
from di_api.names import CHECKPOINT_VOLUME, job_name_of
from di_api.phase import Phase
from di_api.spec.task import TaskType
from di_local.addresses import NoAddress
from di_local.arguments import OF_CLUSTERS, read_arguments
from di_local.engine import Engine, NoEngine, find_engine
from di_local.images import BadImages
from di_local.manifest import (
    BadManifest,
    Manifest,
    interpreters,
    made_of_flags,
    read_manifest,
    with_checkpoint,
)
from di_local.run import CannotRun, Interrupts, Options, Outcome, run, state_directory
from di_local.screen import replicas
from di_service.logs import configure_logs

SUCCEEDED, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
_CONSOLE: Final = Console(highlight=False, soft_wrap=True)
_MANIFESTS: Final = (".yaml", ".yml", ".json")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job; return 0 if it succeeded, 1 if it failed, 2 if it cannot run, 130 after Ctrl-C."""
    arguments, unknown = read_arguments(sys.argv[1:] if argv is None else argv)
    try:
        _check_options(arguments.file, unknown)
        return conclude(run_job(_manifest(arguments), _options(arguments)))
    except (BadManifest, BadImages, CannotRun, NoAddress, NoEngine, OSError) as error:
        for line in str(error).splitlines():
            _CONSOLE.print(Text.assemble(("refused: ", "red"), line))
        return REFUSED


def run_file(path: Path) -> Outcome:
    """Run a manifest as `di run FILE` does. Raises the errors of `run_job`, and BadManifest."""
    return run_job(read_manifest(path), _options(read_arguments(["run", str(path)])[0]))


def run_job(manifest: Manifest, options: Options) -> Outcome:
    """Run a job to its end, in a new event loop and with its output on the screen.

    Raises:
        BadImages, CannotRun, NoAddress, OSError: it cannot run here; nothing was started.
    """
    return asyncio.run(_run(manifest, options))


def _check_options(file: Path, unknown: Sequence[str]) -> None:
    """Refuse options that are not of `di run`.

    Raises:
        BadManifest: there are some.
    """
    if not unknown:
        return
    given = shlex.join(unknown)
    if file.suffix in _MANIFESTS:
        raise BadManifest(f"{given}: no option of `di run`; the manifest has the arguments")
    raise BadManifest(
        f"{given}: no option of `di run`; options of the program stand after --: "
        f"di run {file} -- {given}"
    )


def _manifest(arguments: argparse.Namespace) -> Manifest:
    found = _manifest_of(arguments, arguments.file)
    directory = arguments.checkpoint
    return found if directory is None else with_checkpoint(found, directory.resolve())


def _manifest_of(arguments: argparse.Namespace, path: Path) -> Manifest:
    if path.suffix in _MANIFESTS:
        return read_manifest(path)
    directory, name = Path.cwd(), job_name_of(path.stem)
    if path.is_dir():
        directory, name = path.resolve(), job_name_of(path.resolve().name)
        path = _entry(path, arguments.entry)
    elif arguments.entry is not None:
        raise BadManifest(f"--entry {arguments.entry}: is for a folder, and {path} is none")
    if not path.is_file():
        raise BadManifest(f"{path}: there is no such file")
    for word, about in OF_CLUSTERS.items():
        if getattr(arguments, word.removeprefix("--")) is not None:
            _CONSOLE.print(f"{word}: {about}")
    counts: dict[TaskType, int] = {
        kind: getattr(arguments, f"{kind}s") for kind in TaskType if kind is not TaskType.NONE
    }
    interpreter = ["python3"] if path.suffix == ".py" else []
    return made_of_flags(
        [*interpreter, str(path.resolve()), *arguments.rest],
        counts=counts,
        name=arguments.name or name,
        directory=directory,
    )


def _entry(folder: Path, entry: str | None) -> Path:
    """Return the program of a folder, by the rule of `di submit`."""
    programs = sorted(folder.glob("*.py"))
    if entry is None and len(programs) != 1:
        raise BadManifest(f"{folder}: which file starts is not clear; name it with --entry")
    return folder / entry if entry is not None else programs[0]


def _options(arguments: argparse.Namespace) -> Options:
    volumes = {}
    for text in arguments.volume:
        name, sign, directory = text.partition("=")
        if not sign or not Path(directory).is_dir():
            raise BadManifest(f"--volume {text}: must be NAME=DIRECTORY of a directory")
        volumes[name] = Path(directory).resolve()
    engine = _engine(arguments)
    if arguments.checkpoint is not None:
        arguments.checkpoint.mkdir(parents=True, exist_ok=True)
        volumes[CHECKPOINT_VOLUME] = arguments.checkpoint.resolve()
    return Options(
        environ=os.environ,
        state=state_directory(),
        command=shlex.split(arguments.command or ""),
        engine=engine,
        image=arguments.image,
        volumes=volumes,
        show_logs=_write if arguments.logs else None,
        has_colours=_CONSOLE.color_system is not None,
        on_directory=_log_to,
    )


def _engine(arguments: argparse.Namespace) -> Engine | None:
    if arguments.image is not None and arguments.containers:
        raise BadManifest("--image is in place of the manifest's images, --containers runs these")
    if arguments.image is not None or arguments.containers:
        return find_engine(arguments.engine, arguments.engine_option, os.environ)
    if arguments.engine is not None or arguments.engine_option:
        raise BadManifest("--engine and --engine-option are for --image or --containers")
    return None


async def _run(manifest: Manifest, options: Options) -> Outcome:
    interrupts, loop = Interrupts(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupts)
    counts = replicas(mapping(manifest.job.get("spec")))
    pods = ", ".join(_counted(count, task) for task, count in counts.items() if count)
    how = "as processes" if options.engine is None else f"in containers of {options.engine.name}"
    _CONSOLE.print(f"{manifest.job['metadata'].get('name')}: {pods}, {how} here")
    if options.engine is None:
        for word in interpreters(manifest.job):
            path = shutil.which(word, path=options.environ.get("PATH"))
            _CONSOLE.print(Text(f"{word} is {path}", "dim"))
    return await run(manifest, options, say=_CONSOLE.print, interrupts=interrupts)


def _write(text: str) -> None:
    _CONSOLE.file.write(text)
    _CONSOLE.file.flush()


def _log_to(directory: Path) -> None:
    """Write the logs of the operator and di-server to a file, because the screen is for the job."""
    configure_logs("info", (directory / "control-plane.log").open("a"))


def _counted(count: object, task: str) -> str:
    return f"{count} {task}" if count == 1 or task.endswith("s") else f"{count} {task}s"


def conclude(outcome: Outcome) -> int:
    """Print how a run has ended; return the exit code."""
    seconds = f"{outcome.seconds:.0f} s"
    logs = f"   logs: {outcome.directory}"
    if outcome.phase == Phase.SUCCEEDED:
        _CONSOLE.print(Text.assemble(("Succeeded", "bold green"), f" in {seconds}.{logs}"))
        return SUCCEEDED
    if outcome.phase == Phase.FAILED:
        _CONSOLE.print(Text.assemble(("Failed", "bold red"), f" after {seconds}.{logs}"))
        return FAILED
    _CONSOLE.print(f"ended after {seconds}; nothing of it runs any more.{logs}")
    return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
