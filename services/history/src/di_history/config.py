"""Settings of the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from marshmallow import ValidationError, fields, validate
from typing_extensions import override

from di_api.names import HISTORY_NAME
from di_service.settings import (
    CERT_DIR,
    DRAIN_SECONDS,
    HEALTH_BIND,
    KUBECONFIG,
    LOG_LEVEL,
    TLS_PORT,
    Address,
    AddressesField,
    ObjectField,
    Setting,
    read_settings,
)

_GIB: Final = 1 << 30
_HIGHEST_PRICE: Final = 1e6


class AuthMode(StrEnum):
    """The authentication that callers need."""

    OFF = "off"
    """All callers can read everything: for development only."""
    REQUIRED = "required"
    """All callers need a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of an installation."""

    binds: tuple[Address, ...]
    """Addresses to listen on, all with the same application."""
    tls_port: int | None
    """The port of `binds` with HTTPS. The others, plain HTTP, accept tokens only from this machine,
    where a port-forward ends.
    """
    cert_dir: Path
    """Folder with tls.crt and tls.key; reloaded when they change."""
    health_bind: Address | None
    """Additional address for probes."""
    database: str = field(repr=False)
    """`sqlite:///FILE` or `postgresql://...`."""
    watch_namespace: str | None
    """The only namespace that is watched; None means all."""
    auth: AuthMode
    kubeconfig: str | None
    threads: int
    """Number of requests handled concurrently."""
    review_rate: float
    """TokenReviews per second and address, for tokens that are not known to be valid."""
    days: float
    """Days for which a job is kept after its end."""
    most_bytes: int
    """Maximum bytes of the history; beyond it namespaces above their share lose the jobs that ended
    first.
    """
    job_bytes: int
    """Maximum bytes of one job without its logs; each kind of record has a fifth, and loses its
    oldest records beyond it.
    """
    log_bytes: int
    """Bytes of each container's log tail that are kept; 0: none."""
    job_log_bytes: int
    """Maximum bytes of all logs of one job, compressed."""
    object_storage: str
    """`s3://BUCKET/PREFIX`, for whole logs; empty: only the log tails in the database are kept."""
    object_endpoint: str
    """Endpoint of a storage other than AWS; empty: AWS, by region."""
    object_region: str
    object_ca_file: Path | None
    """CA certificate of the endpoint, PEM; None: public ones."""
    spool_dir: Path
    """Folder for whole logs that wait for their upload."""
    spool_bytes: int
    """Maximum bytes of all of them, compressed."""
    whole_log_bytes: int
    """Maximum bytes of one whole log before compression; the beginning is kept."""
    price_label: str
    """Label of nodes that `prices` are by; empty: there are none, and nodes are not watched."""
    prices: Mapping[str, float]
    """Price of an hour of one GPU, by the value of that label."""
    log_level: str
    drain_seconds: float
    """Seconds after SIGTERM in which new connections are still accepted."""


class _PricesField(ObjectField):
    """A JSON object of prices."""

    @override
    def _deserialize(self, value: Any, *args: Any, **others: Any) -> dict[str, float]:
        found = super()._deserialize(value, *args, **others)
        for kind, price in found.items():
            is_number = isinstance(price, int | float) and not isinstance(price, bool)
            if not (is_number and 0 <= price <= _HIGHEST_PRICE):
                raise ValidationError(f"{kind}: must be a price of at least 0")
        return {kind: float(price) for kind, price in found.items()}


_SETTINGS: Final = (
    Setting(
        "binds",
        AddressesField(load_default=(Address(host="localhost", port=8080),)),
        "addresses of the listeners, separated by commas",
    ),
    Setting(
        TLS_PORT,
        fields.Integer(load_default=None),
        "port among binds that serves HTTPS; empty: all serve plain HTTP, to this machine only",
    ),
    CERT_DIR,
    HEALTH_BIND,
    Setting(
        "database",
        fields.String(load_default="sqlite:////data/history.db"),
        "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
    ),
    Setting(
        "watch_namespace",
        fields.String(load_default=None),
        "the only namespace whose jobs are recorded; empty: all",
    ),
    Setting(
        "auth",
        fields.Enum(AuthMode, by_value=True, load_default=AuthMode.REQUIRED),
        f"whether callers have to authenticate: {', '.join(AuthMode)}",
    ),
    Setting(
        "threads",
        fields.Integer(load_default=8, validate=validate.Range(1, 256)),
        "number of requests handled at the same time",
    ),
    Setting(
        "review_rate",
        fields.Float(load_default=10.0, validate=validate.Range(0.1, 1e6)),
        "TokenReviews per second for one address, of tokens that are not in the cache",
    ),
    Setting(
        "days",
        fields.Float(load_default=90.0, validate=validate.Range(0.001, 36_500)),
        "days for which a job is kept after its end",
    ),
    Setting(
        "most_bytes",
        fields.Integer(load_default=16 * _GIB, validate=validate.Range(1 << 20, 1 << 50)),
        "bytes of the whole database; above it namespaces over their share lose old jobs",
    ),
    Setting(
        "job_bytes",
        fields.Integer(load_default=40 << 20, validate=validate.Range(1 << 20, _GIB)),
        "bytes of one job without its logs; a type of records above a fifth of it loses the oldest",
    ),
    Setting(
        "log_bytes",
        fields.Integer(load_default=1 << 20, validate=validate.Range(0, 64 << 20)),
        "bytes kept of each container's log, the last ones; 0: none",
    ),
    Setting(
        "job_log_bytes",
        fields.Integer(load_default=1_700_000, validate=validate.Range(0, _GIB)),
        "bytes of all logs of one job, compressed",
    ),
    Setting(
        "object_storage",
        fields.String(load_default=""),
        "s3://BUCKET/PREFIX for whole logs, with credentials in AWS's variables; empty: none",
    ),
    Setting(
        "object_endpoint",
        fields.String(load_default=""),
        "https://HOST:PORT of the object storage; empty: AWS",
    ),
    Setting(
        "object_region",
        fields.String(load_default="us-east-1", validate=validate.Length(1, 64)),
        "region of the bucket",
    ),
    Setting(
        "object_ca_file",
        fields.Function(deserialize=Path, load_default=None),
        "PEM file of the authority of the endpoint's certificate; empty: public authorities",
    ),
    Setting(
        "spool_dir",
        fields.Function(deserialize=Path, load_default=Path("/spool")),
        "folder of whole logs that wait for their upload",
    ),
    Setting(
        "spool_bytes",
        fields.Integer(load_default=_GIB, validate=validate.Range(1 << 20, 1 << 50)),
        "bytes of all logs in that folder, compressed",
    ),
    Setting(
        "whole_log_bytes",
        fields.Integer(load_default=256 << 20, validate=validate.Range(1 << 10, 1 << 40)),
        "bytes stored of one whole log, the first ones, before compression",
    ),
    Setting(
        "price_label",
        fields.String(
            load_default="", validate=validate.Regexp(r"^([A-Za-z0-9.-]+/)?[A-Za-z0-9._-]*$")
        ),
        "label of nodes that prices are by; empty: no prices",
    ),
    Setting(
        "prices",
        _PricesField(load_default=dict),
        "JSON object: price of an hour of one GPU by the value of price_label",
    ),
    LOG_LEVEL,
    DRAIN_SECONDS,
)


def load_config(argv: Sequence[str], environ: Mapping[str, str]) -> Config:
    """Read flags, DI_HISTORY_* and KUBECONFIG.

    Raises:
        SettingsError: a value is invalid; the message has all of them.
    """
    values = read_settings(
        _SETTINGS,
        program=HISTORY_NAME,
        about="Keeps what happened to DIJobs.",
        prefix="DI_HISTORY_",
        argv=argv,
        environ=environ,
        unprefixed=(KUBECONFIG,),
    )
    return Config(**values)
