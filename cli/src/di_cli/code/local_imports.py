"""The modules beside a program that it imports, for a hint that they are not taken."""

from __future__ import annotations

import ast
from pathlib import Path


def left_behind(program: Path, source: bytes) -> list[str]:
    """Return the imported modules that exist beside the program; empty if it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    folder = program.parent
    return sorted(
        name
        for name in found
        if (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
    )
