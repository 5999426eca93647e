"""The mutants of a module: one small change of its syntax tree each."""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_NOT_RUN = ("annotation", "returns", "format_spec", "type_comment")


@dataclass(frozen=True, eq=False)
class Mutant:
    """One change of one module."""

    path: Path
    label: str
    lines: range  # of the statement that it is in
    at: int  # its own line
    in_function: bool  # as opposed to code that runs at import
    parent: ast.AST
    field: str
    index: int | None
    old: ast.AST
    new: ast.AST

    def shown(self) -> str:
        """Where it is, and what it does."""
        return f"{self.path.name}:{self.at}: {self.label}"

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Its tree changed, until the end of the block."""
        self._put(self.new)
        try:
            yield
        finally:
            self._put(self.old)

    def _put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def mutants(path: Path, tree: ast.Module) -> Iterator[Mutant]:
    """All mutants of a module, in the order of its text."""
    yield from _below(tree, path, range(0), False)


def functions(code: CodeType) -> list[CodeType]:
    """The functions of a module and of its classes, without those inside functions."""
    found = []
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            is_class = not inner.co_flags & inspect.CO_OPTIMIZED
            found += functions(inner) if is_class else [inner]
    return found


def _below(node: ast.AST, path: Path, lines: range, in_function: bool) -> Iterator[Mutant]:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
        lines = _header(node)
    inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for field, value in ast.iter_fields(node):
        if field in _NOT_RUN:
            continue
        several = isinstance(value, list)
        for index, child in enumerate(value if several else [value]):
            if not isinstance(child, ast.AST) or _is_docstring(child):
                continue
            own = _header(child) if isinstance(child, ast.stmt) else lines
            within = in_function or (inside and field == "body")
            for label, other in _alternatives(child, node, field):
                # A copy: an alternative may be a part of the tree, which keeps its places.
                new = ast.fix_missing_locations(ast.copy_location(copy.copy(other), child))
                place = (node, field, index if several else None, child, new)
                yield Mutant(path, label, own, getattr(child, "lineno", own.start), within, *place)
            yield from _below(child, path, lines, within)


def _header(node: ast.stmt | ast.excepthandler | ast.match_case) -> range:
    """The lines of a statement without the block below it."""
    begin = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
    below = getattr(node, "body", None) or getattr(node, "cases", None)
    if not below:
        return range(begin, (getattr(node, "end_lineno", None) or begin) + 1)
    first = below[0].pattern if isinstance(below[0], ast.match_case) else below[0]
    return range(begin, max(first.lineno, begin + 1))


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _alternatives(node: ast.AST, parent: ast.AST, field: str) -> Iterator[tuple[str, ast.AST]]:
    """What may stand in a node's place, each with a description."""
    test = field == "test" and isinstance(parent, ast.If | ast.IfExp)
    if test or field == "ifs" or (field == "guard" and isinstance(parent, ast.match_case)):
        yield f"{_text(node)} -> True", ast.Constant(True)
    if test:
        yield f"{_text(node)} -> False", ast.Constant(False)
    for new in _of_statement(node) if isinstance(node, ast.stmt) else _of_expression(node, test):
        yield _difference(ast.unparse(node), ast.unparse(new)), new


def _of_statement(node: ast.stmt) -> Iterator[ast.stmt]:
    match node:
        case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
            yield ast.Return(None)
        case ast.Continue():
            yield ast.Break()
        case ast.Expr(value) if _text(value).startswith("assert_never"):
            pass
        case ast.Expr() | ast.Break() | ast.Raise() | ast.AugAssign() | ast.Delete():
            yield ast.Pass()
        case ast.Assign([ast.Subscript() | ast.Attribute()]):
            yield ast.Pass()
        case _:
            pass


def _of_expression(node: ast.AST, test: bool) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left, ops, comparators):
            for i, op in enumerate(ops):
                if isinstance(op, _ORDER) or not test:  # else as the test that is constant
                    swapped: Any = [*ops[:i], _SWAPS[type(op)](), *ops[i + 1 :]]
                    yield ast.Compare(left, swapped, comparators)
        case ast.BoolOp(op, values):
            for i in range(len(values)):
                rest = [*values[:i], *values[i + 1 :]]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(ast.Not(), operand) if not test:
            yield operand
        case ast.BinOp(left, op, right) if type(op) in _SWAPS:
            other: Any = _SWAPS[type(op)]()
            yield ast.BinOp(left, other, right)
        case ast.Constant(value):
            yield from map(ast.Constant, _other_values(value))
        case ast.Call(func, args, keywords):
            for i, keyword in enumerate(keywords):
                if keyword.arg:
                    yield ast.Call(func, args, [*keywords[:i], *keywords[i + 1 :]])
        case _:
            pass


def _other_values(value: object) -> list[bool | float | str]:
    match value:
        case bool():
            return [not value]
        case int() | float():
            return [value + 1]
        case str():
            return ["XX" + value]
        case _:
            return []


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else text[:67] + "..."


def _difference(old: str, new: str) -> str:
    """Both, without most of what they begin with in common."""
    pairs = enumerate(zip(old, new, strict=False))
    same = next((at for at, (left, right) in pairs if left != right), min(len(old), len(new)))
    start = max(0, same - 30)
    return " -> ".join(" ".join(text[start:].split())[:100] for text in (old, new))
