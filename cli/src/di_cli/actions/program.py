"""`di submit` of a program or a folder: the parts of `spec.code` put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from di_api.dns_names import job_name_of
from di_api.wording import listed
from di_cli.code.bundle import Bundle, make
from di_cli.code.files import Taken, packages, take
from di_cli.code.job import DEFAULT_IMAGE, Wanted, job_of, with_default_image
from di_cli.code.local_imports import left_behind
from di_cli.code.submission import FOLDER, Stored, code_of
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.output import note

Object = dict[str, Any]
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The options of `di submit` about a program or a folder.

    Attributes:
        template: the DIJobTemplate that the job gets; it can have the image.
        is_tracked: whether what it logs to experiment trackers is reported.
        artifacts: claim, and perhaps a path, for the artifacts of all pods.
    """

    path: Path
    arguments: Sequence[str]
    entry: str | None
    requirements: str | None
    counts: Mapping[str, int]
    gpus: int
    name: str | None
    template: Object | None = None
    is_tracked: bool = False
    artifacts: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A job that is ready to be created.

    Attributes:
        job: returns the job for the place of its bundle.
        source: what the files are from, for the ConfigMap's annotation.
    """

    bundle: Bundle
    source: str
    job: Callable[[Stored], Object]


def is_program(words: Sequence[str], entry: str | None) -> bool:
    """Return whether the first word is a program or a folder, and the others its arguments."""
    return entry is not None or words[0].endswith(".py") or Path(words[0]).is_dir()


def prepared(program: Program) -> Prepared:
    """Read the files of a program; return its bundle and its job. Raises CommandError."""
    path = program.path
    if not path.exists():
        raise CommandError(f"there is no file or folder {path}", code=ExitCode.USAGE)
    taken = take(path, requirements=_requirements_beside(program))
    requirements = requirements_of(path, program.requirements, taken)
    entry = _entry(program, taken)
    if program.is_tracked and not entry.endswith(".py"):
        raise CommandError(
            f"--track is for Python programs, and {entry} is none", code=ExitCode.USAGE
        )
    if not path.is_dir() and (beside := left_behind(path, taken.files[path.name].content)):
        note(
            f"{path.name} imports {', '.join(beside)}, which is beside it and not taken: "
            f"di submit {path.parent} --entry {path.name} takes the folder"
        )
    bundle = bundle_of(taken)
    name = program.name or job_name_of(path.resolve().name if path.is_dir() else path.stem)
    wanted = Wanted(
        name=name,
        entry=entry,
        arguments=program.arguments,
        counts=program.counts,
        gpus=program.gpus,
        is_tracked=program.is_tracked,
        image=DEFAULT_IMAGE if program.template is None else None,
        artifacts=program.artifacts,
    )
    code = partial(code_of, bundle=bundle, requirements=requirements, revision=taken.revision)
    return Prepared(
        bundle=bundle,
        source=FOLDER if path.is_dir() else path.name,
        job=lambda stored: _complete(job_of(wanted, code(stored)), program.template),
    )


def _complete(job: Object, template: Object | None) -> Object:
    if template is None:
        return job
    from di_cli.edits.job_templates import with_template  # noqa: PLC0415  a push has no template

    return with_default_image(with_template(job, template))


def bundle_of(taken: Taken) -> Bundle:
    """Return the bundle of the files with `di_orchestrator`, and print what is in it."""
    ours = packages()
    bundle = make({**taken.files, **ours})
    revision = f", git {taken.revision}" if taken.revision else ""
    count = f"{len(taken.files)} file{'' if len(taken.files) == 1 else 's'}"
    note(f"code: {count}, {-(-len(bundle.packed) >> 10)} KiB{revision}")
    if taken.secrets:
        note(f"left out, because they may be secrets: {listed(taken.secrets, _SHOWN)}")
    if taken.skipped:
        note(f"left out, because they are no files of the folder: {listed(taken.skipped, _SHOWN)}")
    if not ours:
        note(
            "the package di-orchestrator is not installed here, so the image has to have it: "
            "pip install ./sdk in a clone of the repository"
        )
    return bundle


def requirements_of(path: Path, given: str | None, taken: Taken) -> str | None:
    """Return the path of the requirements in the bundle. Raises CommandError."""
    if given is None:
        return None
    if not path.is_dir():
        return Path(given).name
    file, folder = Path(given).resolve(), path.resolve()
    found = file.relative_to(folder).as_posix() if file.is_relative_to(folder) else given
    if found not in taken.files:
        raise CommandError(
            f"--with {given}: is not among the files of {path}",
            remedy="name a file in the folder that git does not ignore, such as requirements.txt",
            code=ExitCode.USAGE,
        )
    return found


def _requirements_beside(program: Program) -> Path | None:
    if program.requirements is None or program.path.is_dir():
        return None
    return Path(program.requirements)


def _entry(program: Program, taken: Taken) -> str:
    if not program.path.is_dir():
        if program.entry is not None:
            raise CommandError(
                f"--entry {program.entry}: is for a folder, and {program.path} is a program",
                remedy=f"di submit {program.path.parent} --entry {program.entry}",
                code=ExitCode.USAGE,
            )
        return program.path.name
    programs = [name for name in taken.files if name.endswith(".py") and "/" not in name]
    if program.entry is None and len(programs) == 1:
        return programs[0]
    if program.entry is None:
        raise CommandError(
            f"which file of {program.path} starts the program is not clear",
            where=f"it has {listed(programs, _SHOWN)}"
            if programs
            else "it has no .py file at the top",
            remedy=f"di submit {program.path} --entry {programs[0] if programs else 'FILE'}",
            code=ExitCode.USAGE,
        )
    entry = Path(program.entry).as_posix()
    if entry not in taken.files:
        raise CommandError(
            f"--entry {program.entry}: is not among the files of {program.path}",
            where=f"it has {listed(list(taken.files), _SHOWN)}"
            if taken.files
            else "it has no files",
            remedy="name it from the folder, and let neither git nor .diignore ignore it",
            code=ExitCode.USAGE,
        )
    return entry
