"""All tests, two pytest sessions at a time: those that compute, and then have an API server of
their own, beside those that wait for clusters; then the operator's on the oldest Python promised.

    python -m tests.lanes [PYTEST OPTION ...]

The output of the session that waits for clusters is shown at once, that of the others when it has
ended. The last lines name each session's Python, result and duration.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

_INTEGRATION = Path("tests/integration")
_OPERATOR = tuple(str(each) for each in sorted(_INTEGRATION.glob("test_operator_*.py")))
APART = (
    f"{_INTEGRATION}/kueue",
    *_OPERATOR,
    *(str(each) for each in sorted(_INTEGRATION.glob("test_server_*.py"))),
)
"""Of the folder's tests those that share nothing with the others but an API server, of which each
session has its own; so many that both sessions end at about the same time."""
FIRST = ("tests/unit", "tests/golden", "tests/poison", "tests/chart", "tests/faults", *APART)
SECOND = ("tests/integration", "tests/e2e")
DECISIONS = (
    *(f"tests/unit/{each}" for each in ("operator", "lifecycle", "allocator", "builders")),
    *("tests/unit/certs", "tests/unit/kube", "tests/unit/test_traces.py", "tests/golden"),
    "tests/poison/test_operator.py",
)
"""The tests of the operator, of the API client and of the certificates, of which it is made, that
need no API server."""
OLDEST = (("tests/faults",), (*DECISIONS, *_OPERATOR))
"""The sessions on the oldest Python, the longest one first."""
OLDEST_PYTHON: Final = Path(".venv-oldest/bin/python")
_AT_ONCE: Final = 2
_NO_TESTS = 5
"""pytest's exit code where options choose none."""


@dataclass(frozen=True, slots=True)
class Session:
    """One run of pytest: on which interpreter, with which folders and options."""

    arguments: Sequence[str]
    python: Path = Path(sys.executable)

    @property
    def version(self) -> str:
        """The version of its Python, such as 3.13.0.

        Raises:
            subprocess.CalledProcessError, OSError: the interpreter does not run.
        """
        code = "import platform; print(platform.python_version())"
        done = subprocess.run(
            [self.python, "-c", code], stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class _Ended:
    """The exit code of a session, and how long it took in seconds."""

    code: int
    seconds: float

    @property
    def passed(self) -> bool:
        return self.code in (0, _NO_TESTS)


def run(sessions: Sequence[Session]) -> int:
    """Run the sessions, in this order, two at a time; returns 0 if all of them passed.

    The first session has this process's output. That of the others is printed after it.
    """
    titles = [f"Python {each.version}: pytest {' '.join(each.arguments)}" for each in sessions]
    print(titles[0], flush=True)
    ended = []
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in sessions[1:]]
        pool = ThreadPoolExecutor(_AT_ONCE)
        # After Ctrl-C, which the running sessions get too, no other session starts.
        stack.callback(pool.shutdown, cancel_futures=True)
        first, *others = [
            pool.submit(_run, each, output)
            for each, output in zip(sessions, [None, *files], strict=True)
        ]
        ended.append(first.result())
        for title, file, other in zip(titles[1:], files, others, strict=True):
            ended.append(other.result())
            print(f"\n{title}", flush=True)
            file.seek(0)
            sys.stdout.buffer.write(file.read())
            sys.stdout.flush()
    print()
    for title, end in zip(titles, ended, strict=True):
        print(f"{'passed' if end.passed else 'FAILED'} in {end.seconds:.0f} s on {title}")
    return 0 if all(end.passed for end in ended) else 1


def _run(session: Session, output: IO[bytes] | None) -> _Ended:
    started = time.monotonic()
    done = subprocess.run(
        [session.python, "-m", "pytest", *session.arguments],
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        check=False,
    )
    return _Ended(done.returncode, time.monotonic() - started)


def every_session(options: Sequence[str]) -> list[Session]:
    """All tests on this Python, and the operator's on the oldest one unless that is the same."""
    sessions = [
        Session([*SECOND, *(f"--ignore={each}" for each in APART), *options]),
        Session([*FIRST, *options]),
    ]
    if not OLDEST_PYTHON.exists():
        raise SystemExit(f"{OLDEST_PYTHON} is missing: make setup-oldest")
    oldest = [Session([*each, *options], OLDEST_PYTHON) for each in OLDEST]
    if oldest[0].version == sessions[0].version:
        print(f"There is no older Python here than {oldest[0].version}: it runs all tests once.")
        return sessions
    return [*sessions, *oldest]


if __name__ == "__main__":
    raise SystemExit(run(every_session(sys.argv[1:])))
