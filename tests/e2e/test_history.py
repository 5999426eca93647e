"""What di-history has of a job that failed on a real node and is gone, asked for as a user does."""

from __future__ import annotations

import pytest

from di_cli.main import run
from tests.e2e.jobs import job, task
from tests.e2e.kubectl import Kubectl
from tests.waiting import wait_until

FAILS = "print('the last words'); raise SystemExit(3)"


@pytest.mark.usefixtures("release")
def test_the_logs_of_a_job_outlive_it(
    kubectl: Kubectl,
    namespace: str,
    python_image: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubectl.kubeconfig))
    # di leaves the way to the service to kubectl.
    monkeypatch.setenv("PATH", str(kubectl.program.parent), prepend=":")
    monkeypatch.delenv("DI_HISTORY_URL", raising=False)
    kubectl(
        *("--namespace", namespace, "create", "rolebinding", "default-view"),
        *("--clusterrole=view", f"--serviceaccount={namespace}:default"),
    )
    learner = task("learner", image=python_image, program=FAILS)
    kubectl.apply(job("gone", namespace=namespace, tasks=[learner], backoffLimit=0))
    wait_until(lambda: kubectl.phase("gone", namespace=namespace) == "Failed", 60, every=0.5)
    kubectl("--namespace", namespace, "delete", "dijob", "gone")

    def said(*words: str) -> str:
        capsys.readouterr()
        run([*words, "--namespace", namespace])
        return capsys.readouterr().out

    def told() -> str:
        found = said("history", "gone")
        assert "deleted" in found
        assert "the last words" in found
        return found

    found = wait_until(told, 60, every=0.5)

    assert "gone-learner-0 exit code 3" in found
    assert said("logs", "gone", "--ended") == "gone-learner-0  the last words\n"
