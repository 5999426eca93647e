"""pip and uv install `di` from a clone, and ask no index for our names.

What others made lies in the environment already, because the index of these tests has nothing.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typing_extensions import override

from tests.clones import environment, run

UV = Path(sys.executable).with_name("uv")
PIP = (sys.executable, "-m", "pip")


class Index(ThreadingHTTPServer):
    """A package index without any package; `asked` has what was requested."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/simple/"

    def asked_for_ours(self) -> list[str]:
        """Return the requests that name a package of ours, in any spelling."""
        return [each for each in self.asked if re.search(r"/simple/di[-_.]", each, re.IGNORECASE)]


class _Handler(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_error(404)

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[Index]:
    with Index() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The Python of an environment that has all third-party packages of this one."""
    return environment(tmp_path / "venv")


def install(index: Index, home: Path, python: Path, what: str, *, by_uv: bool = False) -> None:
    pip = (*PIP, "--python", python, "install", "--no-cache-dir", "--no-compile", "--retries", "0")
    uv = (UV, "pip", "install", "--no-cache", "--python", python)
    command = uv if by_uv else pip
    run(home, *command, "--no-build-isolation", "--index-url", index.url, what)


def test_pip_installs_the_command_from_a_clone(index: Index, python: Path, tmp_path: Path) -> None:
    install(index, tmp_path, python, "./cli")
    assert index.asked_for_ours() == []
    run(tmp_path, python, "-c", "from di_orchestrator import jobs, training")
    assert run(tmp_path, python.with_name("di"), "--version").startswith("di ")


@pytest.mark.extended
@pytest.mark.parametrize(
    ("what", "modules"),
    [
        pytest.param(
            "./sdk",
            "di_orchestrator",
            marks=pytest.mark.proves("cli.md#the-command-di/pip-install-sdk"),
        ),
        pytest.param(
            "./sdk[client]",
            "di_orchestrator.jobs",
            marks=pytest.mark.proves("cli.md#the-command-di/pip-install-sdk-cli-sdk-client"),
        ),
        pytest.param(
            "./sdk[local]",
            "di_local.main, di_cli.main",
            marks=pytest.mark.proves("cli.md#the-command-di/pip-install-sdk-local"),
        ),
        pytest.param(
            "./sdk[dashboard]",
            "di_dashboard.main, di_cli.main",
            marks=pytest.mark.proves("cli.md#the-command-di/pip-install-sdk-dashboard"),
        ),
    ],
)
def test_pip_installs_each_extra_from_a_clone(
    what: str, modules: str, index: Index, python: Path, tmp_path: Path
) -> None:
    install(index, tmp_path, python, what)
    assert index.asked_for_ours() == []
    run(tmp_path, python, "-c", f"import {modules}")


@pytest.mark.extended
def test_uv_installs_the_command_from_a_clone(index: Index, python: Path, tmp_path: Path) -> None:
    install(index, tmp_path, python, "./cli", by_uv=True)
    assert index.asked_for_ours() == []
    assert run(tmp_path, python.with_name("di"), "--version").startswith("di ")
