"""A function as a program of its own: its source, and a call with the arguments."""

from __future__ import annotations

import ast
import builtins
import inspect
import symtable
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from di_cli.client.errors import BadCall


def program_of(function: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """Return the program that calls a function with these keyword arguments.

    Raises:
        BadCall: the source is missing, uses names of its module, or an argument cannot be written.
    """
    name = getattr(function, "__name__", repr(function))
    if not inspect.isfunction(function) or inspect.isgeneratorfunction(function):
        kind = "generator" if inspect.isfunction(function) else type(function).__name__
        raise BadCall(
            f"{name} must be a plain function, which a call runs to its end",
            where=f"it is a {kind}",
            remedy="use def, without yield and self, or a file",
        )
    source = _source(function, name)
    _check_names(source, name)
    call = ", ".join(f"{key}={_literal(name, key, value)}" for key, value in arguments.items())
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise BadCall(f"{name}() cannot be called with args={dict(arguments)}: {error}") from error
    return f'{source.rstrip()}\n\n\nif __name__ == "__main__":\n    {name}({call})\n'


def _source(function: Callable[..., Any], name: str) -> str:
    try:
        source = inspect.getsource(function)
        if source[0].isspace():
            # Less indentation would change texts of several lines.
            source = f"if True:\n{source}"
        (definition,) = ast.parse(source).body
        if isinstance(definition, ast.If):
            (definition,) = definition.body
        # Finds nonlocal, which needs the function around it.
        compile(source, "<function>", "exec")
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise BadCall(f"the source of {name} is not available", where=str(error)) from error
    if not isinstance(definition, ast.FunctionDef) or definition.decorator_list:
        raise BadCall(
            f"{name} must be a plain function",
            remedy="use def, without decorators and async, or a file",
        )
    return source


def _check_names(source: str, name: str) -> None:
    """Refuse a function that reads variables, imports or functions around it."""
    table = symtable.symtable(source, "<function>", "exec")
    own = {name, *dir(builtins)}
    if missing := sorted(set(_globals(table)) - own):
        raise BadCall(
            f"{name} uses {', '.join(missing)}, which only its module or notebook has",
            where="the pods get the source of the function alone",
            remedy="import inside the function, and pass values with args=",
        )


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names that a module's functions read from the module."""
    # Defaults and annotations are read where the function is defined.
    yield from (
        each.get_name()
        for each in table.get_symbols()
        if table.get_type() == "module" and each.is_referenced()
    )
    for inner in table.get_children():
        for symbol in inner.get_symbols():
            if symbol.is_global() and symbol.is_referenced() and not symbol.is_declared_global():
                yield symbol.get_name()
        yield from _globals(inner)


def _literal(name: str, key: str, value: object) -> str:
    text = repr(value)
    try:
        same = ast.literal_eval(text) == value
    except (ValueError, SyntaxError):
        same = False
    if not same:
        raise BadCall(
            f"args[{key!r}] of {name} must be a number, text, list or dict",
            where=f"{text:.80}",
        )
    return text
