"""The files and words of what `submit` takes: programs, folders, functions and manifests."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from numbers import Number
from pathlib import Path
from typing import Any, TypeAlias

from di_api.dns_names import job_name_of
from di_cli.client.errors import BadCall
from di_cli.client.functions import program_of
from di_cli.client.options import Arguments
from di_cli.edits.manifests import ManifestError

What: TypeAlias = str | Path | Mapping[str, Any] | Callable[..., Any]


def words_of(arguments: Arguments) -> list[str]:
    """Return arguments as words of a command line.

    A mapping makes options: `{"lr": 3e-4}` is `--lr 0.0003`, True is the option alone, None and
    False leave it out, and a list gives it several values.

    Raises:
        BadCall: an argument is neither a number nor text, or a quotation mark has no partner.
    """
    if isinstance(arguments, str):
        try:
            return shlex.split(arguments)
        except ValueError as error:
            raise BadCall(
                f"args={arguments!r}: {error}", remedy="args=[...], word by word"
            ) from error
    if isinstance(arguments, list | tuple):
        return [_word(f"args[{place}]", each) for place, each in enumerate(arguments)]
    if not isinstance(arguments, Mapping):
        raise BadCall(f"args={arguments!r}: must be a dict, a list or text")
    words: list[str] = []
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        words.append(f"--{name}")
        if isinstance(value, list | tuple):
            words += (_word(f"args[{name!r}]", each) for each in value)
        elif value is not True:
            words.append(_word(f"args[{name!r}]", value))
    return words


def _word(where: str, value: object) -> str:
    if not isinstance(value, str | Number | Path):
        raise BadCall(f"{where} must be a number or text", where=f"{value!r:.80}")
    return str(value)


def written(function: Callable[..., Any], arguments: Arguments, folder: Path) -> Path:
    """Write the program of a function into a folder; return its path. Raises BadCall."""
    if not isinstance(arguments, Mapping):
        if arguments:
            raise BadCall("args of a function are a dict of its parameters")
        arguments = {}
    program = program_of(function, arguments)
    path = folder / f"{job_name_of(function.__name__)}.py"
    path.write_text(program)
    return path


def not_submitted(error: ManifestError) -> BadCall:
    """Return the error for an invalid manifest, or a change that it cannot have."""
    return BadCall("nothing was submitted", where=str(error))
