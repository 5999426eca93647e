"""The operator as a process of its own, started in a few milliseconds and killed without mercy.

A server process has imported the operator already and forks: importing it anew for each of a
thousand starts would cost more than everything else.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import yaml

from tests.waiting import STOP_SECONDS

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["di_operator.main"])


class Life:
    """One process of a component, from its start to its end.

    Attributes:
        exit_code: None while it runs; negative for a signal.
        started_at: monotonic seconds.
        ended_at: the same; None while it runs.
    """

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        self.started_at = time.monotonic()
        self._ended = asyncio.Event()
        self.exit_code: int | None = None
        self.ended_at: float | None = None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended already."""
        if self._process.pid is None or self._ended.is_set():
            return
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def end(self) -> int:
        """Note the end of the process; returns its exit code."""
        self._process.join()
        self.exit_code = self._process.exitcode or 0
        self.ended_at = time.monotonic()
        self._ended.set()
        return self.exit_code

    async def ended(self, seconds: float) -> None:
        """Wait for its end.

        Raises:
            TimeoutError: it still runs.
        """
        await asyncio.wait_for(self._ended.wait(), seconds)


class Component:
    """One replica of the operator under a fixed identity.

    Args:
        folder: where its kubeconfig and its log go; one log for all its lives.
        server: base URL of the API server.
        environment: further variables of its configuration.
        on_end: told the exit code each time it ends; negative for a signal.
    """

    def __init__(
        self,
        *,
        folder: Path,
        server: str,
        environment: Mapping[str, str],
        on_end: Callable[[int], None] = lambda _: None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "operator.log"
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(server)))
        self._environment = {**environment, "KUBECONFIG": str(kubeconfig)}
        self._on_end = on_end
        self._life: Life | None = None

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    @property
    def life(self) -> Life:
        """The process that was started last."""
        assert self._life is not None
        return self._life

    @property
    def exit_code(self) -> int | None:
        """None while it runs or before it was started; negative for a signal."""
        return self._life.exit_code if self._life is not None else None

    def start(self) -> None:
        """Start it; it must not run."""
        process = _CONTEXT.Process(
            target=_serve, args=(self._environment, str(self._log)), daemon=True
        )
        process.start()
        loop, life = asyncio.get_running_loop(), Life(process)

        def gone() -> None:
            loop.remove_reader(process.sentinel)
            self._on_end(life.end())

        loop.add_reader(process.sentinel, gone)
        self._life = life

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended already."""
        if self._life is not None:
            self._life.signal(number)

    async def ended(self, seconds: float = STOP_SECONDS) -> None:
        """Wait for its end.

        Raises:
            TimeoutError: it still runs.
        """
        if self._life is not None:
            await self._life.ended(seconds)


def _serve(environment: Mapping[str, str], log: str) -> None:
    """Run in the forked process."""
    # As a pod has, so that it has a share of a busy machine's processors of its own.
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, sys.stdout.fileno())
    os.dup2(descriptor, sys.stderr.fileno())
    for variable in [name for name in os.environ if name.startswith(("DI_", "KUBE"))]:
        del os.environ[variable]
    os.environ.update(environment)
    sys.argv = ["di-operator"]
    # Here, not above: only the forked process needs it, the server process has it already.
    from di_operator.main import main  # noqa: PLC0415

    main()


def _kubeconfig(server: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "faults",
        "contexts": [{"name": "faults", "context": {"cluster": "faults", "user": "operator"}}],
        "clusters": [{"name": "faults", "cluster": {"server": server}}],
        "users": [{"name": "operator", "user": {}}],
    }
