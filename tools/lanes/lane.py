"""A lane: one process that runs a part of the tests, and how it ended."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tools.prepare.items import Group

NO_TESTS: Final = 5
"""pytest's exit code where options choose none."""
SCORE: Final = "score"
"""The property of a test whose value the run prints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A part of the tests that runs as one process and can be started alone.

    Attributes:
        name: what LANE= calls it.
        what: what it proves, in a few words.
        arguments: of the interpreter, such as ``-m pytest tests/unit``.
        needs: what `tools.prepare` fetches and builds for it.
        disk: GiB that its clusters take meanwhile.
    """

    name: str
    what: str
    arguments: Sequence[str]
    needs: Collection[Group] = ()
    disk: int = 0

    @property
    def is_pytest(self) -> bool:
        return tuple(self.arguments[:2]) == ("-m", "pytest")

    @property
    def paths(self) -> list[str]:
        """The folders and files that pytest is given; of another program none."""
        return [each for each in self.arguments if each.startswith("tests/")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """A test that did not pass: its name, and the first line of its message."""

    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a lane ended.

    Attributes:
        code: the exit code of its process.
        seconds: from its start to its end.
        log: its whole output.
        tests: how many ran; None if the lane is no pytest or wrote no report.
        failed: those that did not pass.
        slowest: seconds and name, the longest first.
        scores: what its tests have recorded as the property ``score``, such as a share that is
            right.
    """

    lane: Lane
    code: int
    seconds: float
    log: Path
    tests: int | None = None
    failed: Sequence[Test] = ()
    slowest: Sequence[tuple[float, str]] = field(default=())
    scores: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        return self.code == 0 or (self.lane.is_pytest and self.code == NO_TESTS)


def outcome(lane: Lane, code: int, seconds: float, log: Path, report: Path) -> Outcome:
    """Return how a lane ended, with what its JUnit report says if it wrote one."""
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError):  # another program, or pytest was killed
        return Outcome(lane=lane, code=code, seconds=seconds, log=log)
    took = ((float(case.get("time", 0)), _name(case)) for case in cases)
    return Outcome(
        lane=lane,
        code=code,
        seconds=seconds,
        log=log,
        tests=len(cases),
        failed=[
            Test(name=_name(case), message=(bad.get("message") or "").partition("\n")[0][:300])
            for case in cases
            for bad in (*case.findall("failure"), *case.findall("error"))
        ],
        slowest=sorted(took, reverse=True)[:20],
        scores=[
            found.get("value", "")
            for case in cases
            for found in case.iter("property")
            if found.get("name") == SCORE
        ],
    )


def version(python: Path) -> str:
    """The version of an interpreter, such as 3.13.0.

    Raises:
        subprocess.CalledProcessError, OSError: it does not run.
    """
    code = "import platform; print(platform.python_version())"
    done = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '')}::{case.get('name', '')}"
