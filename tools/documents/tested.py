"""Which test stands for each row of the documents, and which command runs it."""

from __future__ import annotations

import difflib
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Final

from tools.documents.proofs import BadMarker, Proof, every_proof
from tools.documents.rows import ROOT, Row, every_row, pages

FILE: Final = ROOT / "docs" / "reference/tested.md"
UNTESTED: Final = 0
"""How many rows have no test. It only goes down: lower it with each test that gets a marker."""
_COMMANDS: Final = ("make check", "make test", "make test-all")
_HEAD: Final = """# What is tested where

For each row of the documents: the tests that fail when it is false, and the first command that runs
them. A row is a row of a table, or a section without a table. Made by `make generate` from the
pages and the tests' markers, by [these rules](../how-to/development.md#rows-and-their-tests).

"""

Proofs = Mapping[Row, Sequence[Proof]]


def document() -> str:
    """The whole document.

    Raises:
        BadMarker: a marker cannot be read.
    """
    rows = every_row()
    return _HEAD + "\n".join(_lines(rows, matched(rows, every_proof()))) + "\n"


def problems() -> list[str]:
    """What keeps the table from being complete, a line each, with what to do about it."""
    try:
        rows, proofs = every_row(), every_proof()
    except BadMarker as bad:
        return [str(bad)]
    return [*bad_markers(rows, proofs), *untested(rows, matched(rows, proofs), UNTESTED)]


def matched(rows: Sequence[Row], proofs: Sequence[Proof]) -> Proofs:
    """The proofs of each row, one for each test."""
    by_name, patterns = defaultdict(list), []
    for proof in proofs:
        if "*" in proof.pattern:
            patterns.append(proof)
        else:
            by_name[proof.pattern].append(proof)
    return {
        row: list(
            {
                (each.file, each.test): each
                for each in (
                    *by_name[row.name],
                    *(each for each in patterns if fnmatchcase(row.name, each.pattern)),
                )
            }.values()
        )
        for row in rows
    }


def bad_markers(rows: Sequence[Row], proofs: Sequence[Proof]) -> Iterator[str]:
    """Markers that name no row or an exempt one, and those that are repeated at a test."""
    names = {row.name: row for row in rows}
    for proof, count in Counter(proofs).items():
        at = f"{proof.file}::{proof.test}"
        if count > 1:
            yield f"{at} names {proof.pattern} twice: delete one of them"
        if "*" in proof.pattern:
            if not any(fnmatchcase(name, proof.pattern) for name in names):
                yield f"{at} names {proof.pattern}, which no row matches"
        elif proof.pattern not in names:
            near = difflib.get_close_matches(proof.pattern, names, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"{at} names {proof.pattern}, which is no row{hint}"
        elif names[proof.pattern].exempt:
            yield f"{at} names {proof.pattern}, which is exempt: delete the marker or the comment"


def untested(rows: Sequence[Row], proofs: Proofs, allowed: int) -> Iterator[str]:
    """Rows without a test, when there are more than allowed."""
    missing = [row for row in rows if not row.exempt and not proofs[row]]
    if len(missing) > allowed:
        for row in missing:
            yield (
                f"{row.name} has no test ({row.text[:80]}): put "
                f'@pytest.mark.proves("{row.name}") at the test that fails when it is false'
            )
        yield f"{len(missing)} rows have no test, {allowed} allowed: docs/how-to/development.md"
    elif len(missing) < allowed:
        yield f"{len(missing)} rows have no test: lower UNTESTED to that in {Path(__file__).name}"


def counts(rows: Sequence[Row], proofs: Proofs) -> Iterator[tuple[str, int]]:
    """How many rows are tested by each command, by none, or exempt."""
    first = Counter(_first(proofs[row]) for row in rows if proofs[row] and not row.exempt)
    exempt = sum(bool(row.exempt) for row in rows)
    for command in _COMMANDS:
        yield f"tested by `{command}`", first[command]
    yield "without a test", len(rows) - exempt - first.total()
    yield "exempt: tables and sections that promise nothing", exempt
    yield "all", len(rows)


def _lines(rows: Sequence[Row], proofs: Proofs) -> Iterator[str]:
    yield "| rows | |"
    yield "|---|---|"
    for text, count in counts(rows, proofs):
        yield f"| {text} | {count} |"
    files = pages()
    for page, own in groupby(rows, key=lambda row: row.page):
        yield f"\n## {page}\n"
        yield f"[{page}]({os.path.relpath(files[page], FILE.parent)})\n"
        yield "| row | tests | command |"
        yield "|---|---|---|"
        for row in own:
            text = row.text.replace("|", "\\|")
            yield f"| {text}<br>`#{row.slug}` | {_tests(row, proofs[row])} |"


def _tests(row: Row, proofs: Sequence[Proof]) -> str:
    if row.exempt:
        return f"exempt: {row.exempt} |"
    if not proofs:
        return "**none** |"
    ordered = sorted(proofs, key=lambda each: (_COMMANDS.index(each.command), each.file))
    tests = "<br>".join(f"[{each.test}](../../{each.file})" for each in ordered)
    return f"{tests} | `{_first(proofs)}`"


def _first(proofs: Sequence[Proof]) -> str:
    return min((each.command for each in proofs), key=_COMMANDS.index)
