"""What di-history has of a job that failed on a real node and is gone, asked for as a user does."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from di_cli.exit_codes import ExitCode
from di_cli.main import run
from tests.e2e.conftest import NAMESPACE
from tests.e2e.jobs import job, task
from tests.e2e.kubectl import Kubectl
from tests.programs import Program
from tests.s3 import Storage
from tests.waiting import wait_until

FAILS = "print('the last words'); raise SystemExit(3)"


@pytest.mark.usefixtures("release", "shell")
def test_the_logs_of_a_job_outlive_it(
    kubectl: Kubectl,
    namespace: str,
    python_image: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    learner = task("learner", image=python_image, program=FAILS)
    kubectl.apply(job("gone", namespace=namespace, tasks=[learner], backoffLimit=0))
    wait_until(lambda: kubectl.phase("gone", namespace=namespace) == "Failed")
    authority = tmp_path / "ca.crt"
    (pod,) = kubectl.items("pods", namespace=namespace)
    authority.write_text(pod["metadata"]["annotations"]["diengine/server-ca"])

    def said(*words: str) -> str:
        capsys.readouterr()
        run([*words, "--namespace", namespace])
        return capsys.readouterr().out

    # A log that is not read yet goes with its pod.
    wait_until(lambda: "the last words" in said("history", "gone"))
    kubectl("--namespace", namespace, "delete", "dijob", "gone")

    def told() -> str:
        found = said("history", "gone")
        assert "deleted" in found
        assert "the last words" in found
        return found

    found = wait_until(told)

    assert "gone-learner-0 exit code 3" in found
    user = kubectl("auth", "whoami", "--output=jsonpath={.status.userInfo.username}")
    assert f"{user} (kubectl" in found
    assert said("logs", "gone", "--ended") == "gone-learner-0  the last words\n"

    # The same over HTTPS, known by what pods know di-server by.
    with forwarded(kubectl) as port:
        way = ("--server", f"https://127.0.0.1:{port}", "--certificate-authority", str(authority))
        name = ("--tls-server-name", f"di-history.{NAMESPACE}.svc")
        assert said("logs", "gone", "--ended", *way, *name) == "gone-learner-0  the last words\n"
        words = ("logs", "gone", "--ended", "--namespace", namespace, *way)
        # Without the name it is called by an address that its certificate does not have.
        assert run([*words]) == ExitCode.UNAVAILABLE
    assert "certificate verify failed" in capsys.readouterr().err


@pytest.mark.extended
@pytest.mark.usefixtures("release", "shell")
def test_all_of_a_log_is_in_the_storage(
    kubectl: Kubectl,
    namespace: str,
    python_image: str,
    bucket: Storage | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if bucket is None:
        pytest.skip("pods of a cluster elsewhere do not reach a storage of this machine")
    # More than the end that is in the database.
    talks = "print(*(f'{n} ' + 'x' * 1000 for n in range(2000)), sep='\\n')"
    learner = task("learner", image=python_image, program=talks)
    kubectl.apply(job("talks", namespace=namespace, tasks=[learner]))
    wait_until(lambda: kubectl.phase("talks", namespace=namespace) == "Succeeded")

    def lines(*more: str) -> list[str]:
        capsys.readouterr()
        run(["logs", "talks", "--ended", *more, "--namespace", namespace])
        return capsys.readouterr().out.splitlines()

    def whole() -> list[str] | None:
        found = lines("--whole")
        return found if len(found) == 2000 else None

    # A log that is not read yet goes with its pod.
    wait_until(whole)
    kubectl("--namespace", namespace, "delete", "dijob", "talks")
    wait_until(lambda: not kubectl.items("pods", namespace=namespace))
    found = whole() or []

    assert found[0].startswith("talks-learner-0  0 xxx")
    assert 0 < len(lines("--tail=5000")) < 1500
    (key,) = (each for each in bucket.objects() if f"/{namespace}/" in each)
    assert gzip.decompress(bucket.read(key)).count(b"\n") == 2000


@contextmanager
def forwarded(kubectl: Kubectl, name: str = "di-history") -> Iterator[int]:
    """The HTTPS port of a service on one of this machine: somebody else's way to it."""
    service = ("--namespace", NAMESPACE, "port-forward", f"service/{name}", ":8443")
    with Program(
        [kubectl.program, f"--kubeconfig={kubectl.kubeconfig}", *service, "--address=127.0.0.1"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            # kubectl says it once it listens, or ends.
            line = process.stdout.readline()
            yield int(line.partition("127.0.0.1:")[2].partition(" ")[0])
        finally:
            process.terminate()
