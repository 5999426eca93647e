"""Running other programs to their end, always with a time limit."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from di_cluster.errors import CommandFailed

# The end of a failed program's output says why; the beginning is usually progress.
_OUTPUT_SHOWN = 4000


def run(
    argv: Sequence[str | Path],
    *,
    seconds: float = 30,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: str | int = subprocess.DEVNULL,
) -> str:
    """Run a program and return what it printed (standard error included).

    Its standard input is a text or an open descriptor, otherwise empty.

    Raises:
        CommandFailed: it could not be started, ended with a non-zero code, or took longer
            than `seconds` (it is then killed).
    """
    words = [str(word) for word in argv]
    name = " ".join(words[:4]) + (" ..." if len(words) > 4 else "")
    try:
        done = subprocess.run(
            words,
            check=False,
            text=True,
            errors="replace",
            input=stdin if isinstance(stdin, str) else None,
            stdin=None if isinstance(stdin, str) else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            cwd=cwd,
            env=None if environment is None else dict(environment),
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(
            command=name, reason=f"did not end within {seconds:g} s", output=_text(error.output)
        ) from error
    except OSError as error:
        raise CommandFailed(command=name, reason=str(error), output="") from error
    if done.returncode != 0:
        raise CommandFailed(
            command=name,
            reason=f"exit code {done.returncode}",
            output=done.stdout[-_OUTPUT_SHOWN:].strip(),
        )
    return done.stdout


def succeeds(argv: Sequence[str | Path], *, seconds: float = 30, cwd: Path | None = None) -> bool:
    """Whether a program ends with exit code 0 within the time limit."""
    try:
        run(argv, seconds=seconds, cwd=cwd)
    except CommandFailed:
        return False
    return True


def _text(output: bytes | str | None) -> str:
    if output is None:
        return ""
    text = output.decode(errors="replace") if isinstance(output, bytes) else output
    return text[-_OUTPUT_SHOWN:].strip()
