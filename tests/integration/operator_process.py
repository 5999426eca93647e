"""di-operator as its own process, on this machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.integration.service_process import ServiceProcess, started, variables
from tests.ports import held_port
from tests.waiting import START_SECONDS, wait_until


@contextmanager
def operator_process(
    folder: Path,
    kubeconfig: Path,
    namespace: str,
    *,
    environment: Mapping[str, str],
    **given: str,
) -> Iterator[ServiceProcess]:
    """Run an operator for one namespace until the block ends; its log holds no traceback.

    `given` are more DI_OPERATOR_* settings, without the prefix, in lower case.
    """
    with held_port() as port:
        settings = {
            "namespace": namespace,
            "watch_namespace": namespace,
            "health_bind": f"127.0.0.1:{port}",
            **given,
        }
        chosen = {"KUBECONFIG": str(kubeconfig), **variables("operator", settings), **environment}
        log = folder / f"di-operator-{port}.log"
        with started("operator", log, chosen, end=signal.SIGKILL) as process:
            operator = ServiceProcess(process=process, health=f"http://127.0.0.1:{port}", log=log)
            wait_until(operator.answers, START_SECONDS, what=f"the operator, see {log}")
            yield operator
