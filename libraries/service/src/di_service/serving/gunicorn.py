"""gunicorn as the services run it: one worker process that runs fronts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]  # ships no types
from typing_extensions import override

from di_service.logs import gunicorn_logs
from di_service.serving.listeners import bound
from di_service.serving.worker import FrontWorker, Serving
from di_service.settings import Address


def process_settings(name: str, log_level: str) -> dict[str, Any]:
    """Return the common settings: one worker process, our logs, no files on disk.

    Args:
        name: of the process.
        log_level: one of `settings.LEVELS`.
    """
    settings: dict[str, Any] = {
        "workers": 1,
        "logconfig_dict": gunicorn_logs(log_level),
        "loglevel": log_level,
        "proc_name": name,
        "control_socket_disable": True,
    }
    if os.access("/dev/shm", os.W_OK):
        # The worker's heartbeat file: not on a root file system that can be read-only.
        settings["worker_tmp_dir"] = "/dev/shm"
    return settings


class Gunicorn(BaseApplication):  # type: ignore[misc]  # an untyped base
    """Starts and watches one worker process; use more pods for more processes.

    With one process, counters, limits and locks are in one place.
    """

    def __init__(
        self,
        *,
        name: str,
        binds: Iterable[Address],
        seconds_to_end: float,
        log_level: str,
        load: Callable[[], Serving],
    ) -> None:
        """Prepare; `run` binds the sockets.

        Args:
            name: of the process.
            binds: all addresses, that for probes included, as `listeners.bound` accepts them.
            seconds_to_end: time for the worker after SIGTERM; it is killed two seconds later.
            log_level: one of `settings.LEVELS`.
            load: called in the worker, because threads and connections do not survive a fork.
        """
        self._name = name
        self._binds = tuple(binds)
        self._settings: dict[str, Any] = {
            **process_settings(name, log_level),
            "worker_class": FrontWorker,
            "graceful_timeout": int(seconds_to_end) + 2,
        }
        self._load = load
        super().__init__()

    @override
    def load_config(self) -> None:
        for key, value in self._settings.items():
            self.cfg.set(key, value)

    @override
    def run(self) -> None:
        try:
            # gunicorn supports a socket for one address family only.
            sockets = [sock for each in self._binds for sock in bound(each)]
        except OSError as error:
            print(f"{self._name}: cannot listen: {error}", file=sys.stderr)
            sys.exit(1)
        self.cfg.set("bind", [f"fd://{sock.detach()}" for sock in sockets])
        super().run()

    @override
    def load(self) -> Serving:
        return self._load()
