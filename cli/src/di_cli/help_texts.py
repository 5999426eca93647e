"""Help texts of commands, read from their source: to import all of them takes half a second."""

from __future__ import annotations

import ast
from importlib.util import find_spec


def help_text(module: str, function: str) -> str:
    """Return the docstring of a function of a module that need not be imported; empty if there is
    none.
    """
    found = find_spec(module)
    source = found.loader.get_source(module) if found and found.loader else None  # type: ignore[attr-defined]  # of files
    for each in ast.parse(source or "").body:
        if isinstance(each, ast.FunctionDef) and each.name == function:
            return ast.get_docstring(each) or ""
    return ""
