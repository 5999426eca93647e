"""Outside a job every call works without an effect, with one warning."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import di_orchestrator as di
from di_api import names
from di_orchestrator import aio

ALONE = """
import signal, sys, threading, warnings
warnings.simplefilter("error")
before = signal.getsignal(signal.SIGTERM)
import di_orchestrator as di
assert threading.active_count() == 1
assert signal.getsignal(signal.SIGTERM) == before
large = ("torch", "gymnasium", "numpy", "requests")
assert not [name for name in sys.modules if name.split(".")[0] in large]
with di.training(total_steps=2) as run:
    for step in range(2):
        with run.iteration(samples=1):
            pass
        run.report(step, loss=1.0)
        assert not run.stopping
        assert not run.save(lambda path: 1 / 0)
        assert di.advise() is None
assert threading.active_count() == 1
assert (di.scale("collector", +2), di.scale(to=3), di.remove("a")) == (None, None, None)
assert (di.peers("collector"), di.members(), di.client()) == ((), (), None)
assert di.replicas() == {}
assert list(di.watch_peers("collector")) == list(di.watch_members()) == [()]
assert list(di.watch_worlds()) == []
di.say("http://127.0.0.1:1")
assert not di.job().is_inside
"""


@pytest.mark.proves("sdk.md#reference/di-client-client-none")
def test_the_same_program_runs_outside_a_job() -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DI_")}
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("di_orchestrator: not in a DIJob (DI_JOB_ID is not set)")


def test_outside_a_job_there_is_no_asyncio_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(names.ENV_JOB_ID, raising=False)
    assert aio.client() is None


@pytest.mark.usefixtures("learner")
def test_a_missing_server_address_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(names.ENV_SERVER_URL)
    with pytest.raises(di.BadEnvironment, match="DI_SERVER_URL is not set"):
        di.peers("collector")
