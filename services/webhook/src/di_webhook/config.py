"""Settings of the webhook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from marshmallow import fields, validate

from di_api.companions import CompanionKind
from di_api.names import WEBHOOK_NAME
from di_service.settings import (
    CERT_DIR,
    COMPANION_KINDS,
    LOG_LEVEL,
    Address,
    AddressField,
    NamesField,
    Setting,
    read_settings,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings of the webhook."""

    bind: Address
    health_bind: Address
    cert_dir: Path
    threads: int
    companion_kinds: tuple[CompanionKind, ...]
    """Object kinds that jobs can bring along."""
    speakers: tuple[str, ...]
    """Users who change jobs on behalf of others, and name them. Without any, no author is recorded:
    the admission policies of an earlier chart do not allow the annotation.
    """
    log_level: str


_SETTINGS: Final = (
    Setting(
        "bind",
        AddressField(load_default=Address(host="::", port=8443)),
        "address of the listener with TLS",
    ),
    Setting(
        "health_bind",
        AddressField(load_default=Address(host="::", port=8080)),
        "address of the plain listener for /healthz, /readyz and /metrics",
    ),
    CERT_DIR,
    Setting(
        "threads",
        # Reviews compute and never wait: more threads only keep more of them in memory, each up to
        # 50 MiB, and a source gets half of the threads.
        fields.Integer(load_default=4, validate=validate.Range(1, 64)),
        "number of reviews answered at the same time",
    ),
    COMPANION_KINDS,
    Setting(
        "speakers",
        NamesField(load_default=()),
        "users that name the caller for whom they change a job (di-server's account), separated by "
        "commas; empty: jobs name no caller",
    ),
    LOG_LEVEL,
)


def load_config(argv: Sequence[str], environ: Mapping[str, str]) -> Config:
    """Read flags and DI_WEBHOOK_*.

    Raises:
        SettingsError: a value is invalid; the message has all of them.
    """
    values = read_settings(
        _SETTINGS,
        program=WEBHOOK_NAME,
        about="Admits DIJobs.",
        prefix="DI_WEBHOOK_",
        argv=argv,
        environ=environ,
    )
    return Config(**values)
