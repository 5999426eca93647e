"""`di dashboard`: its output and its failures."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from di_cli.exit_codes import ExitCode
from tests.unit.cli.conftest import Di, address_behind


@pytest.mark.proves("cli.md#in-the-browser")
def test_the_address_is_printed_and_opened_and_has_the_jobs(
    di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    seen: list[str] = []
    di.job("grpo")
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(
        "di_dashboard.main.until_interrupted",
        lambda: seen.append(requests.Session().get(address_behind(opened[0]), timeout=60).text),
    )
    said = di("dashboard", "--read-only")
    (url,) = re.findall(r"the page is at (http://127.0.0.1:\d+/\?token=\S+)", said.out)
    assert (said.code, len(opened)) == (ExitCode.DONE, 1)
    assert "grpo" in seen[0]
    assert "read only" in seen[0]
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=60)


def test_the_token_is_not_on_the_browsers_command_line(
    di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ps` shows that to every user of the machine."""
    modes: list[int] = []
    opened: list[str] = []

    def during() -> None:
        file = Path(urlsplit(opened[0]).path)
        modes.extend(each.stat().st_mode & 0o777 for each in (file, file.parent))

    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("di_dashboard.main.until_interrupted", during)
    (token,) = re.findall(r"\?token=(\S+)", di("dashboard").out)
    assert token not in opened[0]
    assert urlsplit(opened[0]).scheme == "file"
    assert modes == [0o600, 0o700]
    assert not Path(urlsplit(opened[0]).path).parent.exists()


def test_ctrl_c_ends_the_dashboard(di: Di, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("di_dashboard.main.until_interrupted", interrupted)
    assert di("dashboard", "--no-browser").code == ExitCode.DONE


def test_a_port_in_use_is_reported(di: Di) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = di("dashboard", "--no-browser", "--port", str(taken.getsockname()[1]))
    assert said.code == ExitCode.FAILED
    assert "of this machine cannot be had" in said.err


def test_a_path_that_is_none_is_refused(di: Di) -> None:
    said = di("dashboard", "--no-browser", "--path", "//elsewhere.example")
    assert said.code == ExitCode.USAGE
    assert "--path //elsewhere.example is no path of a page" in said.err


def test_a_missing_package_is_named(di: Di, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("di_cli.commands.observe.dashboard.find_spec", lambda _: None)
    said = di("dashboard")
    assert said.err.splitlines() == [
        "error: di dashboard needs the package di-dashboard, which is not installed",
        "  try: pip install './sdk[dashboard]' in a clone of the repository; without it: di watch",
    ]


def test_a_user_without_cluster_rights_sees_the_contexts_jobs(
    di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []
    opened: list[str] = []
    di.job("grpo")
    path = "/apis/diengine.opendilab.org/v2alpha1/dijobs"
    refusal = {"code": 403, "reason": "Forbidden", "message": "not at the cluster scope"}
    di.world.refusals["GET", path] = refusal
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(
        "di_dashboard.main.until_interrupted",
        lambda: pages.append(requests.Session().get(address_behind(opened[0]), timeout=60).text),
    )
    di("dashboard")
    assert "grpo" in pages[0]
    assert "test · rl" in pages[0]
