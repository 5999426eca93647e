"""Count how often a reconcile step passes a job back: `python -m tools.documents.walk`.

Of a new job with tasks: each call of one module of the operator by another once, in order. A `<`
marks a return: the job itself (its snapshot, body or key) is passed to a module that was called
before. A `.` marks a hook of a policy, which a reader of the loop over all policies need not
follow; a blank a first call, or one that gets a value and not the job. Reading a property is no
call.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from di_kube.resources import DIJOBS
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.policy_order import POLICIES
from di_operator.process.controller import JobKey
from tests.unit.operator.reconciling import Bench

SOURCE = Path(__file__).resolve().parents[2] / "services" / "operator" / "src" / "di_operator"
# What is handed in, and not on the way.
HANDED_IN = {"process/clock.py", "metrics/metrics.py"}
LOOPS = {
    "lifecycle/decide.py",
    "lifecycle/build_status.py",
    "lifecycle/ladder.py",
    "lifecycle/next_decision.py",
    "lifecycle/policy_order.py",
}
HOOKS = frozenset(
    hook.__code__
    for policy in POLICIES
    for each in fields(policy)
    if (hook := getattr(policy, each.name)) is not None
)


class Call(NamedTuple):
    """Who calls whom, each as a module and a function."""

    caller: tuple[str, str]
    module: str
    function: str
    gets_job: bool
    is_hook: bool


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


def returns(found: Iterable[Call]) -> Iterator[Call]:
    """Those calls that pass the job to a module which was called before."""
    visited = set[str]()
    for call in found:
        if call.module in visited and call.gets_job and not call.is_hook:
            yield call
        visited.add(call.module)


def _calls(frame: FrameType, event: str) -> Iterator[Call]:
    module, function = _module(frame), frame.f_code.co_qualname
    # A snapshot that answers by itself is passed to no other module.
    is_fact = module == "lifecycle/observed/snapshot.py" or function in _properties(module)
    is_own = function.rpartition(".")[2].startswith(("__", "<")) or is_fact
    if event != "call" or not module or module in HANDED_IN or is_own:
        return
    caller = frame.f_back
    while caller is not None and not _module(caller):
        caller = caller.f_back
    if caller is None or _module(caller) != module:
        by = ("", "") if caller is None else (_module(caller), caller.f_code.co_qualname)
        is_hook = frame.f_code in HOOKS and by[0] in LOOPS
        yield Call(by, module, function, _gets_job(frame), is_hook)


def _gets_job(frame: FrameType) -> bool:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = (frame.f_locals.get(name) for name in names)
    return any(
        isinstance(each, Snapshot | JobKey)
        or (isinstance(each, Mapping) and each.get("kind") == DIJOBS.kind)
        for each in given
    )


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
    found = calls()
    back = {*returns(found)}
    for call in found:
        mark = "<" if call in back else "." if call.is_hook else " "
        print(mark, *call.caller, "->", call.module, call.function)
    modules = len({call.module for call in found})
    print(f"{len(found)} calls, {len(back)} of them pass the job back, {modules} modules")


if __name__ == "__main__":
    main()
