"""Runs the tests against mutants: what each test reaches, and a fork for each mutant."""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import importlib.machinery
import io
import itertools
import os
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tools.mutation.mutants import Mutant, functions

TREES: dict[Path, ast.Module] = {}
"""The modules of the package."""
_MONITORING: Any = getattr(sys, "monitoring", None)


@dataclass(frozen=True)
class _Run:
    """What a fork does, and how many seconds it takes without a mutant."""

    mutant: Mutant
    action: Callable[[], object]
    seconds: float


class _FirstFailure:
    """Ends a fork at its first failed test."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(report.nodeid, report.longreprtext, sep="\n", file=sys.__stderr__, flush=True)
            os._exit(1)


class _Coverage:
    """Which tests reach each line of the files, and how many seconds each test takes."""

    def __init__(self, files: set[str]) -> None:
        self.files = files
        self.tests: dict[tuple[str, int], set[int]] = defaultdict(set)
        self.seconds: list[float] = []

    def measure(self, session: pytest.Session) -> None:
        """Run all tests in a fork: what functions remember of it would hide mutants."""
        with tempfile.TemporaryFile() as file:
            if (child := os.fork()) == 0:
                for number in range(len(session.items)):
                    self._trace(session, number)
                file.write(repr((dict(self.tests), self.seconds)).encode())
                file.flush()
                os._exit(0)
            if os.waitpid(child, 0)[1]:
                sys.exit("a test fails without a mutant")
            file.seek(0)
            self.tests, self.seconds = ast.literal_eval(file.read().decode())

    def quickest(self, tests: set[int], most: float) -> list[int]:
        """Those of the tests that take ``most`` seconds together; one at least."""
        ordered = sorted(tests, key=self.seconds.__getitem__)
        passed = itertools.accumulate(self.seconds[test] for test in ordered)
        return [test for test, until in zip(ordered, passed, strict=True) if until <= most] or (
            ordered[:1]
        )

    def _trace(self, session: pytest.Session, number: int) -> None:
        seen: set[tuple[str, int]] = set()

        def line(code: CodeType, at: int) -> object:
            if code.co_filename in self.files:
                seen.add((code.co_filename, at))
            return _MONITORING.DISABLE  # until the next test

        tool, event = _MONITORING.COVERAGE_ID, _MONITORING.events.LINE
        began = time.monotonic()
        _MONITORING.use_tool_id(tool, "mutation")
        _MONITORING.register_callback(tool, event, line)
        _MONITORING.set_events(tool, event)
        _MONITORING.restart_events()
        _run_tests(session, [number])
        _MONITORING.set_events(tool, 0)
        _MONITORING.free_tool_id(tool)
        self.seconds.append(time.monotonic() - began)
        for place in seen:
            self.tests[place].add(number)


class _Loop:
    """Judges the mutants of functions, in place of pytest's loop over its tests."""

    def __init__(self, chosen: Sequence[Mutant], jobs: int, most: float) -> None:
        self.chosen, self.jobs, self.most = chosen, jobs, most
        self.results: dict[Mutant, str] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        coverage = _Coverage({str(path) for path in TREES})
        coverage.measure(session)
        owners = defaultdict(list)
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename in coverage.files:
                owners[_key(each.__code__)].append(each)
        gc.freeze()
        runs = []
        for mutant in self.chosen:
            reach = [coverage.tests.get((str(mutant.path), line), set()) for line in mutant.lines]
            tests = coverage.quickest(set().union(*reach), self.most)
            before, after = _changed(mutant)
            if before == after:
                continue  # the compiler makes the same of both
            if not tests or _key(before) not in owners:
                self.results[mutant] = "unreached"
                continue

            action = functools.partial(_run_changed, session, tests, owners[_key(before)], after)
            runs.append(_Run(mutant, action, sum(coverage.seconds[each] for each in tests)))
        self.results |= _forked(runs, self.jobs)
        return True


def _key(code: CodeType) -> tuple[str, str, int, bytes]:
    """What a function has in common with the one compiled from the tree, whose columns differ."""
    return code.co_filename, code.co_qualname, code.co_firstlineno, code.co_code


def _run_tests(session: pytest.Session, numbers: Sequence[int]) -> None:
    items = [session.items[number] for number in numbers]
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def _run_changed(
    session: pytest.Session, tests: Sequence[int], owners: Sequence[FunctionType], code: CodeType
) -> None:
    for function in owners:
        function.__code__ = code
    _run_tests(session, tests)


def _changed(mutant: Mutant) -> tuple[CodeType, CodeType]:
    """The function that a mutant changes, before and after."""
    before = functions(_unchanged(mutant.path))
    after = functions(_compiled(mutant.path, mutant))
    pairs = [*zip(before, after, strict=True)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])


@functools.cache
def _unchanged(path: Path) -> CodeType:
    return _compiled(path)


def _compiled(path: Path, mutant: Mutant | None = None) -> CodeType:
    with mutant.applied() if mutant else contextlib.nullcontext():
        code: CodeType = compile(TREES[path], str(path), "exec", dont_inherit=True)
        return code


def _forked(runs: Sequence[_Run], jobs: int) -> dict[Mutant, str]:
    """What becomes of each run in a fork of its own, at most ``jobs`` at a time."""
    results: dict[Mutant, str] = {}
    children: dict[int, tuple[_Run, float]] = {}
    left = iter(runs)
    while True:
        while len(children) < jobs and (run := next(left, None)):
            if (child := os.fork()) == 0:
                limit = int(10 + 5 * run.seconds)
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
                _without_output(run.action)
            children[child] = run, time.monotonic() + 60 + 60 * run.seconds
        if not children:
            return results
        for child, (run, end) in [*children.items()]:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                del children[child]
                results[run.mutant] = "killed" if status else "survived"
                if len(results) % 100 == 0:
                    print(f"{len(results)} of {len(runs)}", file=sys.__stderr__, flush=True)
        time.sleep(0.002)


def _without_output(action: Callable[[], object]) -> None:
    """Run it as all that the process does from here."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        action()
    except BaseException:
        os._exit(1)
    os._exit(0)


def _pytest(tests: Sequence[str], plugin: object) -> int:
    arguments = ["-q", "-p", "no:cacheprovider", "--capture=no", "--hypothesis-seed=0", *tests]
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        code = int(pytest.main(arguments, plugins=[plugin, _FirstFailure()]))
    if code:
        print(shown.getvalue(), file=sys.stderr)
    return code


def _import_changed(mutant: Mutant, tests: Sequence[str]) -> Callable[[], None]:
    """All tests, with a module that is changed when it is imported."""

    def run() -> None:
        code = _compiled(mutant.path, mutant)
        loader: Any = importlib.machinery.SourceFileLoader
        original = loader.get_code
        loader.get_code = lambda self, name: (
            code if self.path == str(mutant.path) else original(self, name)
        )
        os._exit(_pytest(tests, object()))

    return run


def judged(
    chosen: Sequence[Mutant], tests: Sequence[str], jobs: int, most: float
) -> dict[Mutant, str]:
    """What becomes of each mutant: killed, survived, or unreached by any test."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = directory
        results = {}
        # These first: their forks import the package themselves.
        if at_import := [mutant for mutant in chosen if not mutant.in_function]:
            began = time.monotonic()
            if (child := os.fork()) == 0:
                os._exit(_pytest(tests, object()))
            if os.waitpid(child, 0)[1]:
                sys.exit("a test fails without a mutant")
            seconds = time.monotonic() - began
            runs = [_Run(each, _import_changed(each, tests), seconds) for each in at_import]
            results = _forked(runs, jobs)
        loop = _Loop([mutant for mutant in chosen if mutant.in_function], jobs, most)
        if code := _pytest(tests, loop):
            sys.exit(code)
    order = {mutant: number for number, mutant in enumerate(chosen)}
    return dict(sorted((results | loop.results).items(), key=lambda each: order[each[0]]))
