"""The reference in docs/reference/sdk.md, from the package's signatures and first sentences."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import di_orchestrator
from di_orchestrator import arrays, hooks
from di_orchestrator.training_run.checkpoint import Checkpoints

FILE = Path(__file__).resolve().parents[2] / "docs" / "reference/sdk.md"
_MARK = "<!-- reference -->\n"
_CLASSES = (
    di_orchestrator.Client,
    di_orchestrator.Job,
    di_orchestrator.Training,
    Checkpoints,
    di_orchestrator.Coordinator,
    di_orchestrator.Drain,
    di_orchestrator.Rollout,
    di_orchestrator.Shards,
    di_orchestrator.Hub,
)


def document() -> str:
    """The whole document: what is written by hand, and the reference."""
    head, _, _ = FILE.read_text().partition(_MARK)
    return head + _MARK + "\n" + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    functions = {
        f"di.{name}": found
        for name in di_orchestrator.__all__
        if inspect.isfunction(found := getattr(di_orchestrator, name))
    }
    yield from _table(functions)
    for kind in _CLASSES:
        yield f"\n`{kind.__name__}`: {_sentence(_documented(kind))}\n"
        members = {
            name: found
            for base in reversed(kind.__mro__[:-1])
            for name, found in vars(base).items()
            if not name.startswith("_")
            if isinstance(found, property | classmethod) or inspect.isfunction(found)
        }
        yield from _table(members)
    for module in (arrays, hooks):
        yield f"\n`{module.__name__}`:\n"
        yield from _table({n: found for n, found in vars(module).items() if _is_of(module, found)})
    yield "\nTypes, by their attributes:\n"
    types = {
        f"di.{name}": found
        for name in di_orchestrator.__all__
        if is_dataclass(found := getattr(di_orchestrator, name)) and found not in _CLASSES
    }
    yield from _table(types)
    yield "\nErrors, all of them `di.DIError`:\n"
    errors = {
        f"di.{name}": found
        for name in di_orchestrator.__all__
        if inspect.isclass(found := getattr(di_orchestrator, name))
        and issubclass(found, di_orchestrator.DIError)
        and found is not di_orchestrator.DIError
    }
    yield "| | |"
    yield "|---|---|"
    for name, error in errors.items():
        yield f"| `{name}` | {_sentence(error)} |"


def _is_of(module: ModuleType, found: Any) -> bool:
    return (
        inspect.isfunction(found)
        and found.__module__ == module.__name__
        and not found.__name__.startswith("_")
    )


def _table(members: dict[str, Any]) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    for name, found in members.items():
        yield f"| `{name}{_arguments(found)}` | {_sentence(found)} |"


class _Type(str):
    """A type as it is written in the code, which a signature shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _arguments(found: Any) -> str:
    if isinstance(found, property):
        returned = inspect.signature(found.fget).return_annotation  # type: ignore[arg-type]  # all can be read
        return f": {returned}".replace("|", r"\|")
    called = found.__func__ if isinstance(found, classmethod) else found
    signature = inspect.signature(called)
    parameters = [
        each.replace(annotation=_Type(each.annotation))
        for name, each in signature.parameters.items()
        if name not in ("self", "cls")
    ]
    returned = str(signature.return_annotation)
    if hasattr(called, "__wrapped__"):
        # A context, which its code writes as a generator.
        returned = returned.replace("Iterator[", "AbstractContextManager[")
    shown = str(inspect.Signature(parameters, return_annotation=_Type(returned)))
    shown = re.sub(r"<function (\w+).*?>|<built-in function (\w+)>", r"\1\2", shown)
    return shown.replace("|", r"\|")


def _documented(kind: type) -> type:
    """The class that says what it is: `Training` of the package is one that is entered."""
    return kind.__mro__[1] if kind is di_orchestrator.Training else kind


def _sentence(found: Any) -> str:
    text = inspect.cleandoc(found.__doc__).partition("\n\n")[0]
    return " ".join(text.split()).replace("|", r"\|")
