"""di bundle."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from di_cli.bundle.contents import files
from di_cli.collect import collect
from di_cli.commands.options import Context, Namespace, System, complete_job
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.output import print_table, say
from di_cli.render.table import Table
from di_cli.session import open_session


def bundle(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="The job's name.", autocompletion=complete_job),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All jobs of the namespace.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="The archive to write.")] = Path(
        "di-bundle.tar.gz"
    ),
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Write the archive without asking.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    system: System = None,
) -> None:
    """Collect what support needs, without secrets; list it, and write an archive when told to."""
    if (name is None) is not every:
        raise CommandError(
            "either a job or --all", remedy="di bundle JOB, di bundle --all", code=ExitCode.USAGE
        )
    if out.exists():
        raise CommandError(
            f"{out} is there already", remedy="name another file with -o, or move it away"
        )
    with open_session(namespace, context) as session:
        if name is None:
            names = sorted(str(each["metadata"]["name"]) for each in session.jobs())
        else:
            names = [str(session.job(name)["metadata"]["name"])]
        made = files(collect(session, names, system))
    print_table(
        Table(header=("BYTES", "FILE"), rows=[(str(len(raw)), path) for path, raw in made.items()])
    )
    if not yes and not _is_wanted(out):
        say("nothing was written")
        return
    _write(out, made)
    say(f"{out}: {len(made)} files, {out.stat().st_size} bytes; look before you pass it on")


def _is_wanted(out: Path) -> bool:
    if not sys.stdin.isatty():
        raise CommandError(
            "nobody is there to ask whether that may be written",
            remedy="--yes, once you have seen the list",
            code=ExitCode.USAGE,
        )
    return typer.confirm(f"write {out}?")


def _write(out: Path, made: Mapping[str, bytes]) -> None:
    """Write the archive in one step, readable only by its user."""
    part = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with (
                os.fdopen(descriptor, "wb") as file,
                tarfile.open(fileobj=file, mode="w:gz") as tar,
            ):
                for path, raw in made.items():
                    entry = tarfile.TarInfo(f"di-bundle/{path}")
                    entry.size, entry.mtime, entry.mode = len(raw), int(time.time()), 0o600
                    tar.addfile(entry, io.BytesIO(raw))
            # Unlike a rename this does not replace a file that was created meanwhile.
            os.link(part, out)
        finally:
            with suppress(FileNotFoundError):
                part.unlink()
    except OSError as error:
        raise CommandError(
            f"{out} cannot be written", where=str(error), remedy="name another file with -o"
        ) from error
