"""The services of the chart as processes of this machine, on the ports that the chart gives them.

What a service listens on comes from the chart: its containers' ports and its ConfigMap. Only the
numbers of the ports, folders, and what is in the cluster alone are replaced.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from di_certs.files import write_certificates
from tests.chart.chart import Chart
from tests.failures.sources import shown_log
from tests.ports import held_ports
from tests.waiting import START_SECONDS, STOP_SECONDS, answers_well, wait_until

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = ("history.enabled=true", "dashboard.enabled=true")
"""Values with which the chart has all of its workloads."""
_COMPONENT = "app.kubernetes.io/component"
_ENTRYPOINT = re.compile(r'^ENTRYPOINT \["([\w-]+)"\]$', re.MULTILINE)

Port = tuple[str, int]
"""A component of the chart, and the port's number there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A service that runs."""

    component: str
    process: subprocess.Popen[bytes]
    ports: Mapping[int, int]
    """By the number in the chart: the number here."""

    def listens_on(self) -> set[int]:
        """Return the ports, by their numbers in the chart, on which its processes listen."""
        numbers = {here: there for there, here in self.ports.items()}
        return {numbers.get(port, port) for port in _listening(self.process.pid)}


def container_ports(chart: Chart) -> set[Port]:
    """Return the ports of all containers of all workloads of the chart."""
    return {
        (pod["metadata"]["labels"][_COMPONENT], port["containerPort"])
        for pod in chart.render(*EVERYTHING).pods().values()
        for containers in ("initContainers", "containers")
        for container in pod["spec"].get(containers) or ()
        for port in container.get("ports") or ()
    }


@contextmanager
def released(
    component: str,
    chart: Chart,
    folder: Path,
    ports: list[int],
    *,
    probes: int,
    environment: Mapping[str, str],
) -> Iterator[Released]:
    """Run a service as its image does until the block ends; it is ready when the block begins.

    Args:
        ports: all that it may listen on, by their numbers in the chart.
        probes: that with /readyz.
        environment: in place of what the ConfigMap has, and besides.
    """
    certificates = folder / "certs"
    certificates.mkdir()
    write_certificates(
        certificates, ["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1)
    )
    settings: dict[str, str] = {
        **chart.render(*EVERYTHING).one("ConfigMap", f"di-{component}")["data"]
    }
    with held_ports(len(ports)) as here:
        numbers = dict(zip(ports, here, strict=True))
        for name, value in settings.items():
            if name.endswith(("_BIND", "_BINDS", "_TLS_PORT")):
                settings[name] = re.sub(
                    r"(?<!\d)\d{4,5}(?!\d)", lambda found: str(numbers[int(found[0])]), value
                )
            if name.endswith("_CERT_DIR"):
                settings[name] = str(certificates)
        # The default of both is /certs.
        settings.setdefault(f"DI_{component.upper()}_CERT_DIR", str(certificates))
        log = folder / f"di-{component}.log"
        dockerfile = (ROOT / _folder(component) / "Dockerfile").read_text()
        (program,) = _ENTRYPOINT.findall(dockerfile)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(Path(sys.executable).with_name(program))],
                env={"PATH": os.environ["PATH"], "HOME": str(folder), **settings, **environment},
                cwd=folder,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        found = Released(component=component, process=process, ports=numbers)

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            return answers_well(f"http://127.0.0.1:{numbers[probes]}/readyz")

        try:
            with shown_log(log):
                wait_until(is_ready, START_SECONDS, what=f"di-{component}, see {log}")
                yield found
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(STOP_SECONDS)
                finally:
                    process.kill()


def _folder(component: str) -> str:
    return component if component == "dashboard" else f"services/{component}"


def _listening(pid: int) -> set[int]:
    """Ports of the TCP sockets on which a process and its children listen."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    sockets = set()
    for each in (str(pid), *children):
        for descriptor in Path(f"/proc/{each}/fd").iterdir():
            try:
                sockets.add(os.readlink(descriptor))
            except FileNotFoundError:
                # It was closed meanwhile.
                continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                found.add(int(words[1].rpartition(":")[2], 16))
    return found
