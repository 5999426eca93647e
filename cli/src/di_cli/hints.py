"""Commands that are printed for a user to copy: they mean the same namespace and context."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Final

_GIVEN: ContextVar[str] = ContextVar("given", default="")
_COMMAND: Final = re.compile(r"\b((?:kubectl )?di|kubectl)(?= [a-z][a-z-]*\b)([^,;:()\n]*)")
_OTHER_PLACE: Final = re.compile(r" (-n|--namespace|-A|--context)\b")


def remember(namespace: str | None, context: str | None) -> None:
    """Remember the options of the command that runs: only those that the user gave."""
    options = [f"-n {namespace}"] if namespace else []
    options += [f"--context {context}"] if context else []
    _GIVEN.set(" ".join(options))


def scoped(text: str) -> str:
    """Return a hint whose commands have the namespace and context that the user gave."""
    return with_options(text, _GIVEN.get())


def with_options(text: str, options: str) -> str:
    """Return a hint whose commands have options such as `-n team-a`; a command that names a
    namespace or context of its own stays as it is.
    """

    def completed(found: re.Match[str]) -> str:
        program, words = found.groups()
        return found[0] if _OTHER_PLACE.search(words) else f"{program} {options}{words}"

    return _COMMAND.sub(completed, text) if options else text
