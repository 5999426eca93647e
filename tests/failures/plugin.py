"""Keeps what explains a failure in a folder, one a test, so that no second run is needed for it.

The folder of a run is what `DI_FAILURES` names, without what an earlier run has left there, else
one in `out/failures` called after the time; the last ten of these are kept. What is written there:
docs/how-to/development.md.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from di_cluster.settings import Settings
from tests.failures import machine
from tests.failures.folder import TEST_BYTES, TEST_SECONDS, Folder
from tests.failures.sources import SOURCES

VARIABLE: Final = "DI_FAILURES"
# Of all failed tests: after that no question is asked, and only the failures themselves are kept.
RUN_SECONDS: Final = 300.0
RUN_BYTES: Final = 1 << 30
_FAILURE: Final = "failure.txt"
_NAME_LENGTH: Final = 100
_RUNS_KEPT: Final = 10


def pytest_configure(config: pytest.Config) -> None:
    """Keep what fails from now on."""
    config.pluginmanager.register(_Failures(config.rootpath), "failures")


class _Failures:
    """The failures of one run.

    Attributes:
        folder: of the run; it exists once a test has failed.
    """

    def __init__(self, root: Path) -> None:
        self._runs = root / "out/failures"
        given = os.environ.get(VARIABLE)
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"
        self.folder = (root / given) if given else self._runs / name
        self._is_given = bool(given)
        if given:
            for kept in self.folder.glob(f"*/{_FAILURE}"):
                shutil.rmtree(kept.parent, ignore_errors=True)
        self._seconds, self._bytes = RUN_SECONDS, RUN_BYTES
        self._failed: set[str] = set()
        self._seen: dict[str, str] = {}
        SOURCES.is_kept = True

    def pytest_unconfigure(self) -> None:
        SOURCES.is_kept = False
        SOURCES.forget_ended()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            try:
                self._keep(item, report)
            # Nothing hides the failure, not even the time limit of the test, which may pass here.
            except (Exception, pytest.fail.Exception) as error:
                report.sections.append(("What is kept of the failure", repr(error)))
        return report

    def pytest_runtest_logfinish(self) -> None:
        SOURCES.forget_ended()

    # The outermost wrapper: the line comes after the list of failures.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, None, None]:
        yield
        if self._failed:
            terminalreporter.write_line(f"failures are explained in {self.folder}")

    def _keep(self, item: pytest.Item, report: pytest.TestReport) -> None:
        if not self._failed and not self._is_given:
            self._forget_runs()
        name = folder_name(report.nodeid)
        self._failed.add(name)
        started = time.monotonic()
        folder = Folder(
            self.folder / name,
            seconds=min(TEST_SECONDS, self._seconds),
            limit=min(TEST_BYTES, self._bytes),
        )
        # A fixture of many tests fails once, and for all of them.
        crash = str(getattr(report.longrepr, "reprcrash", ""))
        if (
            report.when == "setup"
            and crash
            and (first := self._seen.setdefault(crash, name)) != name
        ):
            folder.write(_FAILURE, f"{report.nodeid}\nfailed in setup as in ../{first}\n".encode())
            return
        folder.write(_FAILURE, _text(report).encode(errors="replace"))
        places = (item.config.rootpath, Path(tempfile.gettempdir()), _cache())
        folder.ask(f"machine-{report.when}.txt", lambda: machine.described(places))
        namespace = getattr(item, "funcargs", {}).get("namespace", "")
        folder.collect(SOURCES, namespace if isinstance(namespace, str) else "")
        self._seconds -= time.monotonic() - started
        self._bytes -= folder.written

    def _forget_runs(self) -> None:
        runs = sorted(self._runs.glob("*"), key=lambda path: path.stat().st_mtime)
        for old in runs[: -_RUNS_KEPT + 1]:
            shutil.rmtree(old, ignore_errors=True)


def folder_name(nodeid: str) -> str:
    """The name of a test's folder: its id in letters that every file system takes."""
    path, _, test = nodeid.removeprefix("tests/").partition("::")
    name = re.sub(r"[^\w.\[\]=,-]+", "-", f"{path.replace('/', '.')}-{test}")
    if len(name) <= _NAME_LENGTH:
        return name
    digest = hashlib.sha256(nodeid.encode()).hexdigest()[:8]
    return f"{name[:_NAME_LENGTH]}-{digest}"


def _text(report: pytest.TestReport) -> str:
    head = f"{report.nodeid}\nfailed in {report.when} after {report.duration:.1f} s"
    sections = [f"---- {title}\n{text}" for title, text in report.sections]
    return "\n\n".join([head, report.longreprtext, *sections]) + "\n\n"


def _cache() -> Path:
    folder = Settings.from_environment(os.environ).cache
    while not folder.exists():
        folder = folder.parent
    return folder
