"""The box: one pid, mount and net namespace that holds a whole cluster.

Everything of the cluster is a descendant of the box's process 1, so killing that one process ends
all of it, with every mount and network rule. One veth pair joins it to the host. It has no default
route: no packet of the cluster can leave the machine.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from di_cluster import init
from di_cluster.cgroups import Cgroups
from di_cluster.commands import run
from di_cluster.errors import ClusterError, CommandFailed, TimedOut
from di_cluster.network import Network
from di_cluster.process import Process, reap, spawn
from di_cluster.waiting import wait_until
from di_cluster.workfolder import WorkFolder

_INIT = "init"
_UPLINK = "uplink"
# A daemon tells its pid in the box's pid namespace, and becomes the program when it is told that
# this was noted. If whoever was to note it dies, this is the end of their pipe, and it ends: no
# daemon runs that the next one would start once more.
_LAUNCH = 'exec >> "$1" 2>&1; shift; echo $$ > "$0"; read -r noted && exec "$@" < /dev/null'
# Daemons get a clean environment: a proxy variable of the user's would break webhook calls.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
}


class Box:
    """The namespaces of one cluster and the processes in them."""

    def __init__(self, *, network: Network, folder: WorkFolder) -> None:
        self._network = network
        self._folder = folder
        self.cgroups = Cgroups(folder.cgroup)

    @property
    def init(self) -> Process | None:
        """Process 1 of the box; None while the box is down."""
        return self._folder.pid_file(_INIT).read()

    @property
    def is_up(self) -> bool:
        """Whether it is there and joined to the host; False while it is being made."""
        return self._complete.exists() and self.init is not None

    @property
    def _complete(self) -> Path:
        return self._folder.run / "box.complete"

    def up(self) -> None:
        """Make the namespaces and join them to the host; the box must be down and clean.

        Raises:
            ClusterError: the kernel or a missing permission does not let us.
        """
        self._folder.run.mkdir(parents=True, exist_ok=True)
        prepared = self._folder.run / "box.prepared"
        log = self._folder.logs / "init.log"
        log.unlink(missing_ok=True)
        pipe_end, our_end = os.pipe()
        with open(our_end, "w", encoding="ascii") as to_init:
            try:
                unshare = spawn(
                    [
                        *("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc"),
                        "--kill-child=SIGKILL",
                        *(sys.executable, "-I", init.__file__, prepared, self._complete),
                    ],
                    log=log,
                    environment=ENVIRONMENT,
                    stdin=pipe_end,
                )
            finally:
                os.close(pipe_end)
            process = self._wait_for_init(unshare, prepared=prepared, log=log)
            self._connect(process)
            self.cgroups.create()
            to_init.write(init.COMPLETE)
        wait_until(self._complete.exists, seconds=20, what="the box", every=0.005)

    def _wait_for_init(self, unshare: Process, *, prepared: Path, log: Path) -> Process:
        try:
            process = unshare.first_child()
            self._folder.pid_file(_INIT).write(process)
            wait_until(
                lambda: prepared.exists() or not process.alive,
                seconds=20,
                what="the namespaces",
                every=0.01,
            )
        except (TimedOut, OSError) as error:
            raise ClusterError(f"the namespaces cannot be made: {_last_lines(log)}") from error
        if not process.alive:
            raise ClusterError(f"the namespaces cannot be made: {_last_lines(log)}")
        return process

    def down(self) -> None:
        """Kill the box and remove what it left outside; also cleans up after a crash."""
        kill_box(self._folder)
        with contextlib.suppress(CommandFailed):  # it may have gone with the namespace
            run(["ip", "link", "del", self._network.host_device])

    def argv(self, argv: Sequence[str | Path], *, namespace: str = "") -> list[str | Path]:
        """The command line that runs `argv` in the box (or in a net namespace of it).

        Raises:
            ClusterError: the box is down.
        """
        process = self.init  # not is_up: the box is joined to the host from inside, too
        if process is None:
            raise ClusterError(
                f"cluster {self._folder.name} is down: di-cluster up --name {self._folder.name}"
            )
        enter: list[str | Path] = ["nsenter", "-t", str(process.pid), "-n", "-m", "-p", "--"]
        if namespace:
            enter += ["nsenter", f"--net=/run/netns/{namespace}", "--"]
        return [*enter, *argv]

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        namespace: str = "",
        seconds: float = 30,
        stdin: int = subprocess.DEVNULL,
    ) -> str:
        """Run a program in the box to its end and return its output."""
        inside = self.argv(argv, namespace=namespace)
        return run(inside, seconds=seconds, environment=ENVIRONMENT, stdin=stdin)

    def start(self, name: str, argv: Sequence[str | Path], *, namespace: str = "") -> bool:
        """Start a daemon in the box unless it runs already; returns whether it was started.

        The daemon becomes a child of the box's process 1: nothing of it stays outside.

        Raises:
            ClusterError: it cannot be started.
        """
        pid_file = self._folder.pid_file(name)
        if pid_file.read() is not None:
            return False
        self._folder.logs.mkdir(exist_ok=True)
        # One of its own: what an earlier run was killed over may still come to announce itself.
        announced = self._folder.run / f"{name}.{secrets.token_hex(4)}.inner-pid"
        launch = ["setsid", "--fork", "sh", "-c", _LAUNCH, announced, self.log(name), *argv]
        pipe_end, our_end = os.pipe()
        try:
            with open(our_end, "w", encoding="ascii") as to_daemon:
                try:
                    self.run(launch, namespace=namespace, stdin=pipe_end)
                finally:
                    os.close(pipe_end)
                pid_file.write(self._wait_for_daemon(name, announced))
                to_daemon.write("noted\n")
        except BrokenPipeError as error:
            raise ClusterError(f"{name} ended at once: {_last_lines(self.log(name))}") from error
        announced.unlink()
        return True

    def _wait_for_daemon(self, name: str, announced: Path) -> Process:
        try:
            wait_until(
                lambda: announced.exists() and announced.read_text().endswith("\n"),
                seconds=10,
                what=f"the pid of {name}",
                every=0.005,
            )
        except TimedOut as error:
            raise ClusterError(f"{name} cannot be started: {error}") from error
        process = self._announced(announced)
        if process is None:
            raise ClusterError(f"{name} ended at once: {_last_lines(self.log(name))}")
        return process

    def _announced(self, announced: Path) -> Process | None:
        """The daemon that told its pid in the box in this file; None if it is not running."""
        box = self.init
        try:
            inner_pid = int(announced.read_text())
        except (OSError, ValueError):
            return None
        return None if box is None else box.child_in_namespace(inner_pid)

    def log(self, name: str) -> Path:
        return self._folder.logs / f"{name}.log"

    def processes(self) -> dict[str, Process | None]:
        """Every daemon that was started, by name; None for one that has died."""
        return {pid_file.name: pid_file.read() for pid_file in self._folder.pid_files()}

    def require_alive(self, name: str) -> None:
        """Fail early, with the end of the log, when a daemon has died.

        Raises:
            ClusterError: it is not running.
        """
        if self._folder.pid_file(name).read() is None:
            raise ClusterError(f"{name} ended: {_last_lines(self.log(name))}")

    def _connect(self, process: Process) -> None:
        net = self._network
        device, gateway = net.host_device, net.control_plane
        run(
            [
                *("ip", "link", "add", device, "type", "veth"),
                *("peer", "name", _UPLINK, "netns", str(process.pid)),
            ]
        )
        run(["ip", "addr", "add", f"{net.host}/24", "dev", device])
        run(["ip", "link", "set", device, "up"])
        run(["ip", "route", "add", str(net.whole), "via", str(gateway), "dev", device])
        self.run(["ip", "link", "set", _UPLINK, "master", init.NODE_BRIDGE, "up"])
        self.run(["ip", "addr", "add", f"{gateway}/24", "dev", init.NODE_BRIDGE])
        # Service addresses are rewritten after the route look-up, so they need some route; it
        # leads nowhere. There is no other way out of the box.
        self.run(
            [
                *("ip", "route", "add", str(net.services)),
                *("dev", init.NODE_BRIDGE, "src", str(gateway)),
            ]
        )


def kill_box(folder: WorkFolder) -> None:
    """Kill a box of which nothing but its folder need be known, and free its number.

    Raises:
        TimedOut: a process of it does not die.
    """
    process = folder.pid_file(_INIT).read()
    if process is not None:
        process.kill()
    reap()
    Cgroups(folder.cgroup).remove()
    shutil.rmtree(folder.run, ignore_errors=True)


def _last_lines(log: Path, lines: int = 8) -> str:
    try:
        text = log.read_text(errors="replace").strip()
    except OSError:
        return f"no log in {log}"
    return "\n".join(text.splitlines()[-lines:]) + f"\n(log: {log})"
