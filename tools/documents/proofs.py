"""Which tests stand for which rows of the documents: their markers, read without an import."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tools.documents.rows import ROOT
from tools.lanes import table
from tools.lanes.lane import Lane

PROVES: Final = "pytest.mark.proves"
_EXTENDED: Final = "pytest.mark.extended"

_Named = tuple[str, bool]
"""An argument, and whether only `make test-all` runs the parameter that has it."""


class BadMarker(ValueError):
    """A marker that cannot be read."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One argument of a marker: a row, or a pattern of rows, and the test that stands for it."""

    pattern: str
    file: str
    test: str
    command: str


def every_proof() -> list[Proof]:
    """The markers of all tests.

    Raises:
        BadMarker: an argument is no literal, or the marker is at no test.
    """
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [
        proof
        for file in files
        if PROVES in (text := file.read_text())
        for proof in proofs_of(str(file.relative_to(ROOT)), text)
    ]


def command_of(file: str, *, extended: bool) -> str:
    """The first of the commands that run a test; those after it run it too."""
    if extended or not _is_in(table.TEST, file):
        return "make test-all"
    return "make check" if _is_in(table.CHECK, file) else "make test"


def _is_in(lanes: Sequence[Lane], file: str) -> bool:
    return any(file.startswith(f"{path}/") for lane in lanes for path in lane.paths)


def proofs_of(file: str, text: str) -> Iterator[Proof]:
    """Yield the proofs of one file.

    Raises:
        BadMarker: as above.
    """
    tree = ast.parse(text)
    marks = _marks_in(tree.body)
    yield from _proofs_in(file, tree.body, _arguments(file, marks), _extended(marks))


def _proofs_in(
    file: str, body: Sequence[ast.stmt], outer: Sequence[_Named], extended: bool
) -> Iterator[Proof]:
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        own = _arguments(file, node.decorator_list)
        late = extended or _extended(node.decorator_list)
        if isinstance(node, ast.ClassDef):
            marks = _marks_in(node.body)
            own += _arguments(file, marks)
            yield from _proofs_in(file, node.body, [*outer, *own], late or _extended(marks))
        elif node.name.startswith("test_"):
            for pattern, of_late in [*outer, *own]:
                command = command_of(file, extended=late or of_late)
                yield Proof(pattern, file, node.name, command)
        elif own:
            raise BadMarker(f"{file}:{node.lineno}: {node.name} is no test")


def _marks_in(body: Sequence[ast.stmt]) -> list[ast.expr]:
    return [
        mark
        for node in body
        if isinstance(node, ast.Assign)
        and any(isinstance(each, ast.Name) and each.id == "pytestmark" for each in node.targets)
        for mark in (node.value.elts if isinstance(node.value, ast.List) else [node.value])
    ]


def _arguments(file: str, marks: Sequence[ast.expr]) -> list[_Named]:
    """What the markers name, those of single parameters too."""
    found = []
    for mark in marks:
        late = {node for each in _late_parameters(mark) for node in ast.walk(each)}
        for node in ast.walk(mark):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == PROVES:
                for argument in node.args:
                    if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                        raise BadMarker(f"{file}:{node.lineno}: write the row as a literal")
                    found.append((argument.value, node in late))
    return found


def _extended(marks: Sequence[ast.expr]) -> bool:
    """Whether a marker is that of `make test-all`, or all parameters of a test have it."""
    return any(ast.unparse(mark) == _EXTENDED for mark in marks) or any(
        isinstance(node, ast.List) and node.elts and set(node.elts) <= set(_late_parameters(node))
        for mark in marks
        for node in ast.walk(mark)
    )


def _late_parameters(mark: ast.expr) -> list[ast.Call]:
    """The calls of `pytest.param` that only `make test-all` runs."""
    return [
        node
        for node in ast.walk(mark)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "pytest.param"
        and any(
            isinstance(each, ast.expr) and ast.unparse(each) == _EXTENDED for each in ast.walk(node)
        )
    ]
