"""An event loop whose time jumps to the next timer: hours of waiting cost nothing."""

from __future__ import annotations

import asyncio
import concurrent.futures
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from typing_extensions import override

P = ParamSpec("P")
T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """Instead of sleeping until the next timer, moves the loop's time there."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits for something that no timer will bring")
        self.time += timeout
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    @override
    def time(self) -> float:
        return self._jumping.time

    @override
    def run_in_executor(  # type: ignore[override]  # that of typeshed has a variadic type
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run a function in a thread while time stands still."""
        future: asyncio.Future[T] = self.create_future()
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(func, *args)
        # Not at once: what the thread has scheduled comes before its result.
        self.call_soon(_pass_on, work, future)
        return future


def _pass_on(work: concurrent.futures.Future[T], future: asyncio.Future[T]) -> None:
    """Pass a result or error on, unless the caller was cancelled meanwhile."""
    if future.cancelled():
        return
    if (error := work.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(work.result())


class VirtualClock:
    """A clock on the running loop's time; the wall clock can be moved without the monotonic."""

    def __init__(self) -> None:
        self.wall = datetime(2026, 1, 1, tzinfo=UTC)
        self._loop: asyncio.AbstractEventLoop | None = None

    def now(self) -> datetime:
        return self.wall + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        # In a thread no loop runs: its time is that of the loop that was seen last.
        with suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()
        assert self._loop is not None
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine; tasks that it leaves are cancelled."""

    @wraps(test)
    def run_test(*args: P.args, **options: P.kwargs) -> None:
        run(test(*args, **options))

    return run_test
