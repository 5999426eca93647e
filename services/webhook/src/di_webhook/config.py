"""Settings of the webhook, from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_LEVELS = ("debug", "info", "warning", "error")


class InvalidConfig(ValueError):
    """A setting that cannot be used; the message names the variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything the webhook is told from outside."""

    bind: str
    """`host:port` of the TLS listener."""
    health_bind: str
    """`host:port` of the plain listener for probes and metrics."""
    certificate_dir: Path
    """Folder with tls.crt and tls.key."""
    threads: int
    log_level: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Config:
        """Read DI_WEBHOOK_*.

        Raises:
            InvalidConfig: a value is out of its range.
        """
        return cls(
            bind=_address(environment, "DI_WEBHOOK_BIND", "0.0.0.0:8443"),
            health_bind=_address(environment, "DI_WEBHOOK_HEALTH_BIND", "0.0.0.0:8080"),
            certificate_dir=Path(environment.get("DI_WEBHOOK_CERT_DIR", "/certs")),
            threads=_threads(environment.get("DI_WEBHOOK_THREADS", "8")),
            log_level=_level(environment.get("DI_WEBHOOK_LOG_LEVEL", "info")),
        )


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`; IPv6 hosts are in brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _address(environment: Mapping[str, str], name: str, default: str) -> str:
    value = environment.get(name, default)
    host, _, port = value.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidConfig(f"{name}: {value}: must be host:port")
    return value


def _threads(value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= 64:
        raise InvalidConfig(f"DI_WEBHOOK_THREADS: {value}: must be 1 to 64")
    return int(value)


def _level(value: str) -> str:
    if value.lower() not in _LEVELS:
        raise InvalidConfig(f"DI_WEBHOOK_LOG_LEVEL: {value}: must be one of {', '.join(_LEVELS)}")
    return value.lower()
