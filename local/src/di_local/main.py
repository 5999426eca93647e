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
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from di_api.dns_names import job_name_of
from di_api.field_error import InvalidSpec, mapping
from di_api.names import (
    CHECKPOINT_VOLUME,
)
from di_api.phase import Phase
from di_api.spec.artifact import artifacts_volume
from di_api.spec.task import TaskType
from di_api.sweeps import trial_name
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
    with_artifacts,
    with_checkpoint,
)
from di_local.run import CannotRun, Interrupts, Options, Outcome, run, state_directory
from di_local.screen import replicas
from di_local.sweep import SweepOutcome, run_sweep
from di_local.trials import number, written
from di_service.logs import configure_logs

SUCCEEDED, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
_CONSOLE: Final = Console(highlight=False, soft_wrap=True)
_MANIFESTS: Final = (".yaml", ".yml", ".json")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job or sweep; return 0 if it succeeded, 1 if it failed, 2 if it cannot run, 130 after
    Ctrl-C.
    """
    arguments, unknown = read_arguments(sys.argv[1:] if argv is None else argv)
    try:
        _check_options(arguments.file, unknown)
        manifest = _manifest_of(arguments, arguments.file)
        if manifest.is_sweep:
            return _sweep(manifest, arguments)
        if arguments.parallelism is not None:
            raise BadManifest(f"--parallelism is for a sweep, and {arguments.file} is none")
        return conclude(run_job(_with_directories(manifest, arguments), _options(arguments)))
    except InvalidSpec as error:
        return _refused([str(each) for each in error.errors])
    except (BadManifest, BadImages, CannotRun, NoAddress, NoEngine, OSError) as error:
        return _refused(str(error).splitlines())


def _refused(lines: Sequence[str]) -> int:
    for line in lines:
        _CONSOLE.print(Text.assemble(("refused: ", "red"), line))
    return REFUSED


def _sweep(manifest: Manifest, arguments: argparse.Namespace) -> int:
    directory = None if arguments.checkpoint is None else arguments.checkpoint.resolve()
    arguments.checkpoint = None
    options = _options(arguments)

    async def run_it() -> SweepOutcome:
        return await run_sweep(
            manifest,
            options,
            parallelism=arguments.parallelism,
            checkpoint=directory,
            say=_CONSOLE.print,
            interrupts=_handled_interrupts(),
        )

    return _conclude_sweep(asyncio.run(run_it()), manifest)


def _conclude_sweep(outcome: SweepOutcome, manifest: Manifest) -> int:
    """Print the result of a sweep; return the exit code."""
    counts, name = outcome.summary, str(manifest.job["metadata"]["name"])
    if outcome.cannot_start:
        _CONSOLE.print(Text(f"the program cannot start: {outcome.cannot_start}", "red"))
    if outcome.exhausted:
        _CONSOLE.print(Text(outcome.exhausted, "yellow"))
    if counts.best is not None and counts.value is not None:
        value = f"{outcome.spec.objective.metric} {number(counts.value)}"
        parameters = written(outcome.parameters)
        best = Text.assemble((f"best: {trial_name(name, counts.best)}", "bold green"))
        _CONSOLE.print(Text.assemble(best, f"  {value}  {parameters}"))
    ended = (counts.succeeded, "succeeded"), (counts.stopped, "stopped"), (counts.failed, "failed")
    shown = ", ".join(f"{count} {what}" for count, what in ended if count)
    _CONSOLE.print(
        f"{len(outcome.trials)} trials{': ' if shown else ''}{shown} in {outcome.seconds:.0f} s."
        f"   trials and logs: {outcome.directory}"
    )
    if outcome.is_interrupted:
        return INTERRUPTED
    has_failed = outcome.cannot_start or not counts.succeeded + counts.stopped
    return FAILED if has_failed or counts.failed > outcome.spec.max_failed_trials else SUCCEEDED


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


def _with_directories(manifest: Manifest, arguments: argparse.Namespace) -> Manifest:
    if arguments.artifacts is not None:
        manifest = with_artifacts(manifest, arguments.artifacts.resolve())
    directory = arguments.checkpoint
    return manifest if directory is None else with_checkpoint(manifest, directory.resolve())


def _manifest_of(arguments: argparse.Namespace, path: Path) -> Manifest:
    if path.suffix in _MANIFESTS:
        if arguments.track:
            raise BadManifest(f"--track is for programs; {path} has its command itself")
        found = read_manifest(path)
        folder = arguments.folder
        return found if folder is None else replace(found, directory=folder.resolve())
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
    if arguments.track:
        if not interpreter:
            raise BadManifest(f"--track is for Python programs, and {path} is none")
        interpreter += ["-m", "di_orchestrator.tracking"]
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
    if arguments.artifacts is not None:
        arguments.artifacts.mkdir(parents=True, exist_ok=True)
        volumes[artifacts_volume(0)] = arguments.artifacts.resolve()
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
    interrupts = _handled_interrupts()
    counts = replicas(mapping(manifest.job.get("spec")))
    pods = ", ".join(_counted(count, task) for task, count in counts.items() if count)
    how = "as processes" if options.engine is None else f"in containers of {options.engine.name}"
    _CONSOLE.print(f"{manifest.job['metadata'].get('name')}: {pods}, {how} here")
    if options.engine is None:
        for word in interpreters(manifest.job):
            path = shutil.which(word, path=options.environ.get("PATH"))
            _CONSOLE.print(Text(f"{word} is {path}", "dim"))
    return await run(manifest, options, say=_CONSOLE.print, interrupts=interrupts)


def _handled_interrupts() -> Interrupts:
    """Return the interrupts by signals of this process, in the running event loop."""
    interrupts, loop = Interrupts(), asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(each, interrupts)
    return interrupts


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
