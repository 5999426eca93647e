"""The error in the log tail of a program: the exception, or the line that reports the failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from di_api.explain.facts import Object
from di_api.explain.messages import one_line
from di_api.field_error import items, mapping

_LONGEST: Final = 400
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PREFIX: Final = re.compile(
    r"^(?:\[[\w: ]*rank ?\d+[\w: ]*\]:? ?|\(\w[^()]*pid=\d+[^()]*\) |[ ]*[|+][-+|]* ?)"
)
"""What torchrun, Ray and exception groups put before each line."""
_TRACEBACK: Final = "Traceback (most recent call last):"
_EXCEPTION: Final = re.compile(r"^[A-Za-z_][\w.]*(?:: .*|:)?$")
_NAMED: Final = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Failure)(?:: |$)")
_CHAINED: Final = (
    "During handling of the above exception",
    "The above exception was the direct cause",
)
_WRAPPERS: Final = re.compile(r"(?:^|\.)(?:ChildFailedError|CalledProcessError|ExceptionGroup)\b")
"""Errors of a launcher, which report that the program failed, but not why."""
_REPORTS: Final = re.compile(
    r"\b(?:error|failed)\b(?![:= ]*-?[\d.])|\b(?:fatal|panic|critical)\b|check failed|"
    r"terminate called|not found\b|"
    r"can't open|cannot open|no such file|permission denied|exec format|segmentation fault|"
    r"core dumped|insufficient|refused|signal \d+ \(SIG[A-Z]+\) received",
    re.IGNORECASE,
)
"""Words of lines that report a failure; a number after them is a measurement."""
_LOGGER: Final = re.compile(r"^[EF]\d{4} [\d:.]+ +\d+ [\w./-]+:\d+\] |^\s*traceback : ")
"""What glog and torchrun put before the message of an error."""
_NOISE: Final = re.compile(r"stack trace|^\s+@ |^exit status \d+$")
_RANK: Final = re.compile(r"^\s*(rank|exitcode)\s*: (-?\d+)")
_UNRESOLVED: Final = re.compile(
    r"name or service not known|temporary failure in name resolution|failed to resolve|"
    r"getaddrinfo failed|no address associated with hostname|could not resolve host|no such host",
    re.IGNORECASE,
)
_HOST: Final = re.compile(
    r"host='([^']+)'|resolve '([^']+)'|resolve host:? ([\w.-]+)|lookup ([\w.-]+)|"
    r"[\"'/@]([A-Za-z][\w-]*(?:\.[\w-]+)+)['\"]?\s*[,:]\s*\d+"
)
_SIGNALS: Final = {
    131: "SIGQUIT",
    132: "SIGILL",
    134: "SIGABRT",
    135: "SIGBUS",
    136: "SIGFPE",
    137: "SIGKILL",
    139: "SIGSEGV",
    143: "SIGTERM",
}
"""Signals by the exit code of a container that they ended."""


@dataclass(frozen=True, slots=True)
class _Raised:
    """An exception in a log."""

    text: str
    follows: bool
    """Whether it was raised because of the one before it."""


def program_error(lines: Sequence[str]) -> str:
    """Return the error in a log tail in one line; empty if no line reports one."""
    clean = [_clean(line) for line in lines]
    raised = [*_raised(clean)]
    own = [index for index, each in enumerate(raised) if not _WRAPPERS.search(each.text)]
    if own:
        return one_line(_with_root(raised, own[-1]), _LONGEST)
    if raised:
        return one_line(_of_launcher(raised[-1].text, clean), _LONGEST)
    named = next((line for line in reversed(clean) if _NAMED.match(line)), "")
    return one_line(named or _reported(clean), _LONGEST)


def exit_text(code: int | None) -> str:
    """Return an exit code as text, with the signal that ended the container."""
    if code is None:
        return ""
    signal = _SIGNALS.get(code)
    return f"exit code {code}{f', {signal}' if signal else ''}"


def unresolved_host(error: str, lines: Sequence[str], pod: Object | None) -> str | None:
    """Return the host name that a program could not resolve, empty if the name is unknown.

    None if the error is another one. Python's own message lacks the name: then that of the log or
    of the container's command is returned.
    """
    if not _UNRESOLVED.search(error):
        return None
    for text in (error, *reversed(lines), *_command(pod)):
        if found := _HOST.search(text):
            return next(filter(None, found.groups()), "")
    return ""


def _clean(line: str) -> str:
    text = _PREFIX.sub("", _COLOUR.sub("", line).rstrip())
    return "".join(each if each.isprintable() else " " for each in text)


def _raised(lines: Sequence[str]) -> Iterator[_Raised]:
    """Yield the exceptions of the tracebacks, in order."""
    is_open = follows = False
    for line in lines:
        text = line.strip()
        if text.endswith(_TRACEBACK):
            is_open = True
        elif text.startswith(_CHAINED):
            follows = True
        elif is_open and line[:1] not in ("", " ", "\t") and _EXCEPTION.match(line):
            yield _Raised(text, follows)
            is_open = follows = False


def _with_root(raised: Sequence[_Raised], index: int) -> str:
    """Return an exception, with the one that began its chain."""
    first = index
    while raised[first].follows and first:
        first -= 1
    text = raised[index].text
    return text if first == index else f"{text} (after {raised[first].text.rstrip()})"


def _of_launcher(text: str, lines: Sequence[str]) -> str:
    """Return torchrun's error with the process that it names as the first."""
    found = {match[1]: match[2] for line in lines if (match := _RANK.match(line))}
    if "rank" not in found:
        return text
    code = found.get("exitcode", "?")
    signal = _SIGNALS.get(128 - int(code)) if code.startswith("-") else None
    ended = f"killed by {signal}" if signal else f"exit code {code}"
    return f"{text.rstrip(': ')}: rank {found['rank']}, {ended}"


def _reported(lines: Sequence[str]) -> str:
    for line in reversed(lines):
        if _REPORTS.search(line) and not _NOISE.search(line):
            return _LOGGER.sub("", line).strip()
    return ""


def _command(pod: Object | None) -> Iterator[str]:
    """Yield the words of the commands of a pod's containers."""
    for container in map(mapping, items(mapping(mapping(pod).get("spec")).get("containers"))):
        words = (*items(container.get("command")), *items(container.get("args")))
        yield from (word for word in words if isinstance(word, str))
