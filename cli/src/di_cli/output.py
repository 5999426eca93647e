"""Output of commands in the requested format; hints only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from shutil import get_terminal_size
from typing import Any

from di_cli.hints import scoped
from di_cli.render.signs import is_unicode
from di_cli.render.table import Table, draw

Object = dict[str, Any]


class Output(StrEnum):
    """Output format of objects."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def is_table(self) -> bool:
        """Return whether the format is for people."""
        return self in (Output.TABLE, Output.WIDE)


def on_terminal() -> bool:
    """Return whether the output is a terminal."""
    return sys.stdout.isatty()


def in_colour() -> bool:
    """Return whether the output is a terminal that shows colors, and the user wants them
    (https://no-color.org).
    """
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """Return the columns of the terminal; None for a file or a pipe."""
    return get_terminal_size().columns if on_terminal() else None


def print_table(table: Table) -> None:
    """Print a table; on a terminal in color, and no wider than that."""
    print_text(draw(table, coloured=in_colour(), width=terminal_width()))


def print_text(text: str) -> None:
    """Print a text that has its line ends."""
    sys.stdout.write(text)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines."""
    for line in lines:
        sys.stdout.write(f"{line}\n")


def print_objects(objects: Sequence[Object], output: Output, *, as_list: bool) -> None:
    """Print objects for programs: as the API server returns them, without managedFields.

    `as_list` prints a List, as kubectl does for several.
    """
    if output is Output.NAME:
        print_lines(f"dijob/{each['metadata']['name']}" for each in objects)
        return
    cleaned = [_cleaned(each) for each in objects]
    body: Any = {"apiVersion": "v1", "kind": "List", "items": cleaned} if as_list else cleaned[0]
    print_value(body, output)


def print_value(body: Any, output: Output) -> None:
    """Print data for programs, as YAML or else as JSON."""
    if output is not Output.YAML:
        print_lines([json.dumps(body, indent=2, ensure_ascii=not is_unicode(sys.stdout))])
        return
    import yaml  # noqa: PLC0415  # some milliseconds that tables need not pay

    # Of a bundle of code the other dumper takes a second.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    is_wide = is_unicode(sys.stdout)
    sys.stdout.write(yaml.dump(body, Dumper=dumper, sort_keys=False, allow_unicode=is_wide))


def print_manifests(objects: Sequence[Object], *, as_json: bool) -> None:
    """Print objects for `kubectl apply`: documents of YAML, or a List of JSON."""
    if as_json:
        print_value({"apiVersion": "v1", "kind": "List", "items": [*objects]}, Output.JSON)
        return
    for number, each in enumerate(objects):
        if number:
            print_lines(["---"])
        print_value(each, Output.YAML)


def say(text: str) -> None:
    """Print what was done."""
    print_lines([text])


def suggest(*commands: str) -> None:
    """Print useful next commands on a terminal."""
    if on_terminal():
        sys.stderr.write(f"next: {'   '.join(map(scoped, commands))}\n")


def note(text: str) -> None:
    """Tell a person, or a log, something beside the output."""
    sys.stderr.write(f"{scoped(text)}\n")


def _cleaned(obj: Object) -> Object:
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    return {**obj, "metadata": metadata}
