"""di-operator as its own process, on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.failures.sources import shown_log
from tests.ports import held_port
from tests.waiting import START_SECONDS, STOP_SECONDS, answers_well, wait_until


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProcess:
    """A running operator."""

    process: subprocess.Popen[bytes]
    health: str
    log: Path

    def is_ready(self) -> bool:
        """Whether it leads, or stands by."""
        assert self.process.poll() is None, self.log.read_text()
        return answers_well(f"{self.health}/readyz")

    def terminate(self) -> int:
        """SIGTERM, and the exit code; it gives its lease back."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)


@contextmanager
def operator_process(
    folder: Path,
    kubeconfig: Path,
    namespace: str,
    *,
    environment: Mapping[str, str],
    **variables: str,
) -> Iterator[OperatorProcess]:
    """Run an operator for one namespace until the block ends; its log holds no traceback.

    `variables` are more DI_OPERATOR_* settings, without the prefix, in lower case.
    """
    with held_port() as port:
        settings = {
            "namespace": namespace,
            "watch_namespace": namespace,
            "health_bind": f"127.0.0.1:{port}",
            **variables,
        }
        log = folder / f"di-operator-{port}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "di_operator.main"],
                env={
                    **os.environ,
                    "KUBECONFIG": str(kubeconfig),
                    **{f"DI_OPERATOR_{key.upper()}": value for key, value in settings.items()},
                    **environment,
                },
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        operator = OperatorProcess(process=process, health=f"http://127.0.0.1:{port}", log=log)
        try:
            with shown_log(log):
                wait_until(operator.is_ready, START_SECONDS, what=f"the operator, see {log}")
                yield operator
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(STOP_SECONDS)
    assert "Traceback" not in log.read_text(), log.read_text()
