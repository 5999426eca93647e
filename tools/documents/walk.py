"""Count how often a reconcile step comes back to a module: `python -m tools.documents.walk`.

Of a new job with tasks: each call of one module of the operator by another once, in order, with a
`<` where that module was called before. Reading a property is no call.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from tests.unit.operator.reconciling import Bench

SOURCE = Path(__file__).resolve().parents[2] / "services" / "operator" / "src" / "di_operator"
# What is handed in, and not on the way.
HANDED_IN = {"clock.py", "metrics.py"}


class Call(NamedTuple):
    """Who calls whom, each as a module and a function."""

    caller: tuple[str, str]
    module: str
    function: str


def calls() -> list[Call]:
    """Those of one step, each once."""
    bench, found = Bench(), dict[Call, None]()
    bench.submit()
    sys.setprofile(lambda frame, event, _: found.update(dict.fromkeys(_calls(frame, event))))
    try:
        bench.reconcile()
    finally:
        sys.setprofile(None)
    return list(found)


def _calls(frame: FrameType, event: str) -> Iterator[Call]:
    module, function = _module(frame), frame.f_code.co_qualname
    is_own = function.rpartition(".")[2].startswith(("__", "<")) or function in _properties(module)
    if event != "call" or not module or module in HANDED_IN or is_own:
        return
    caller = frame.f_back
    while caller is not None and not _module(caller):
        caller = caller.f_back
    if caller is None or _module(caller) != module:
        by = ("", "") if caller is None else (_module(caller), caller.f_code.co_qualname)
        yield Call(by, module, function)


def _module(frame: FrameType) -> str:
    file = Path(frame.f_code.co_filename)
    return str(file.relative_to(SOURCE)) if file.is_relative_to(SOURCE) else ""


@cache
def _properties(module: str) -> frozenset[str]:
    tree = ast.parse((SOURCE / module).read_text()) if module else ast.Module([], [])
    return frozenset(
        f"{each.name}.{member.name}"
        for each in tree.body
        if isinstance(each, ast.ClassDef)
        for member in each.body
        if isinstance(member, ast.FunctionDef)
        and any(ast.unparse(one) == "property" for one in member.decorator_list)
    )


def main() -> None:
    """Print the calls and their numbers."""
    visited, returns = set[str](), 0
    for call in (found := calls()):
        again = call.module in visited
        visited.add(call.module)
        returns += again
        print("<" if again else " ", *call.caller, "->", call.module, call.function)
    print(f"{len(found)} calls, {returns} of them back, {len(visited)} modules")


if __name__ == "__main__":
    main()
