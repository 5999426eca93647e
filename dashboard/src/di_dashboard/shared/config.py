"""Settings of the shared dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from marshmallow import fields, validate

from di_api.names import DASHBOARD_NAME
from di_dashboard.app import PATH
from di_service.settings import (
    HEALTH_BIND,
    LOG_LEVEL,
    Address,
    AddressField,
    Setting,
    read_settings,
)

CA_FILE: Final = Path("/kube/ca.crt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of an installation."""

    bind: Address
    cert_dir: Path | None
    """Folder with tls.crt and tls.key, reloaded when they change; None: plain HTTP."""
    health_bind: Address | None
    """Address for probes and `/metrics` over plain HTTP; None: none."""
    api_server: str | None
    """URL of the API server; None: that of the pod's environment."""
    api_ca: Path
    """File with its CA certificates, PEM."""
    cluster: str
    """Displayed name of the cluster."""
    path: str
    """Path prefix of all pages."""
    read_only: bool
    callers: int
    """Maximum number of sessions, one per user and namespace; each has a separate watch."""
    pages: int
    """Maximum number of pages of one user with live changes, over all tokens."""
    idle_seconds: float
    """Seconds after which the watch of an inactive user ends."""
    history_server: str | None
    """URL of di-history; None: not configured."""
    history_ca: Path | None
    """File with its CA certificates, PEM; None: the system's."""
    log_level: str

    @property
    def streams(self) -> int:
        """Return the maximum number of pages of all users with live changes."""
        return self.callers * self.pages


_SETTINGS: Final = (
    Setting(
        "bind",
        AddressField(load_default=Address(host="localhost", port=8443)),
        "address of the listener",
    ),
    Setting(
        "cert_dir",
        fields.Function(deserialize=Path, load_default=None),
        "folder with tls.crt and tls.key, read again when they change; empty: plain HTTP",
    ),
    HEALTH_BIND,
    Setting(
        "api_server",
        fields.String(load_default=None),
        "URL of the API server; empty: from the variables of the pod",
    ),
    Setting(
        "api_ca",
        fields.Function(deserialize=Path, load_default=CA_FILE),
        "PEM file of the authority of the API server",
    ),
    Setting(
        "cluster", fields.String(load_default="this cluster"), "name of the cluster on the page"
    ),
    Setting(
        "path",
        fields.String(load_default="/", validate=validate.Regexp(rf"(?:{PATH.pattern})\Z")),
        "path prefix of the page's addresses, such as /di/",
    ),
    Setting("read_only", fields.Boolean(load_default=False), "whether nothing may be changed"),
    Setting(
        "callers",
        fields.Integer(load_default=32, validate=validate.Range(1, 256)),
        "number of users at the same time, each with a watch of their own",
    ),
    Setting(
        "pages",
        fields.Integer(load_default=8, validate=validate.Range(1, 64)),
        "number of open pages of a user that follow changes",
    ),
    Setting(
        "idle_seconds",
        fields.Float(load_default=300.0, validate=validate.Range(1, 86_400)),
        "seconds after which the watch of a user without open pages ends",
    ),
    Setting(
        "history_server",
        fields.String(load_default=None),
        "URL of di-history; empty: the page shows no history",
    ),
    Setting(
        "history_ca",
        fields.Function(deserialize=Path, load_default=None),
        "PEM file of the authority of di-history; empty: the system's authorities",
    ),
    LOG_LEVEL,
)


def load_config(argv: Sequence[str], environ: Mapping[str, str]) -> Config:
    """Read flags and DI_DASHBOARD_*.

    Raises:
        SettingsError: a value is invalid; the message has all of them.
    """
    values = read_settings(
        _SETTINGS,
        program=DASHBOARD_NAME,
        about="Shows DIJobs to many, each with their own rights.",
        prefix="DI_DASHBOARD_",
        argv=argv,
        environ=environ,
    )
    return Config(**values)
