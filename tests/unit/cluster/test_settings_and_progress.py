"""Settings of the environment, progress messages, and waiting."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from di_cluster.errors import TimedOut
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from di_cluster.waiting import wait_until


def settings(**environment: str) -> Settings:
    return Settings.from_environment({"HOME": "/home/ada", **environment})


def test_the_cache_is_in_the_users_cache_folder() -> None:
    assert settings().cache == Path("/home/ada/.cache/di-orchestrator")
    assert settings(XDG_CACHE_HOME="/c").cache == Path("/c/di-orchestrator")
    assert settings(XDG_CACHE_HOME="/c", DI_ORCHESTRATOR_CACHE="/d").cache == Path("/d")


def test_the_first_kubeconfig_of_the_variable_is_used() -> None:
    assert settings().kubeconfig == Path("/home/ada/.kube/config")
    assert settings(KUBECONFIG="/a:/b").kubeconfig == Path("/a")


def test_the_user_behind_sudo_is_known() -> None:
    assert settings().owner is None
    assert settings(SUDO_UID="1000", SUDO_GID="100").owner == (1000, 100)


def test_each_step_is_reported_with_its_time() -> None:
    times = iter([0.0, 1.0, 3.5, 3.5])
    stream = io.StringIO()
    with Reporter(stream, clock=lambda: next(times)).step("API server is ready"):
        pass
    assert stream.getvalue() == "[   3.5 s] API server is ready (2.5 s)\n"


def test_a_failed_step_is_reported() -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError, match="x"), Reporter(stream).step("API server is ready"):
        raise ValueError("x")
    assert "API server is ready: failed after" in stream.getvalue()


def test_waiting_ends_with_the_state_or_the_last_error() -> None:
    answers = iter([False, False, True])
    wait_until(lambda: next(answers), seconds=5, what="three questions", every=0)
    assert next(answers, "asked no further") == "asked no further"

    def fail(error: Exception) -> bool:
        raise error

    with pytest.raises(TimedOut, match="waited 0 s for the server: refused"):
        wait_until(
            lambda: fail(ConnectionRefusedError("refused")),
            seconds=0,
            what="the server",
            tolerate=(OSError,),
        )
    with pytest.raises(KeyError):
        wait_until(lambda: fail(KeyError("x")), seconds=5, what="x", tolerate=(OSError,))
