"""Settings of a service: each is an environment variable and a flag, with one default."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from marshmallow import Schema, ValidationError, fields, missing, validate
from typing_extensions import override

from di_api.companions import CompanionKind, read_kinds

LEVELS: Final = ("debug", "info", "warning", "error")
"""Log levels, in order of severity."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class SettingsError(Exception):
    """The settings are invalid; the message names every wrong variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address to listen on; as text `host:port`, IPv6 in brackets."""

    host: str
    port: int

    @override
    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a service."""

    name: str
    """Name of the value; the variable is the prefix and the name in capitals, the flag the name
    with hyphens.
    """
    field: fields.Field[Any]
    """Parses the text; has the default, or is required."""
    text: str
    """Text for --help: meaning, unit, and the effect of an empty value."""


class AddressField(fields.Field[Address]):
    """An address as `host:port`."""

    @override
    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Address:
        host, _colon, port = str(value).strip().rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValidationError("must be HOST:PORT")
        return Address(host=host.strip("[]"), port=int(port))


class AddressesField(fields.Field[tuple[Address, ...]]):
    """Comma-separated addresses as `host:port`."""

    @override
    def _deserialize(self, value: Any, *_: Any, **__: Any) -> tuple[Address, ...]:
        each = AddressField()
        return tuple(each.deserialize(part) for part in str(value).split(","))


class NamesField(fields.Field[tuple[str, ...]]):
    """Comma-separated names."""

    @override
    def _deserialize(self, value: Any, *_: Any, **__: Any) -> tuple[str, ...]:
        return tuple(filter(None, map(str.strip, str(value).split(","))))


class ReferenceField(fields.Field[tuple[str, str]]):
    """Reference to an object as `namespace/name`."""

    @override
    def _deserialize(self, value: Any, *_: Any, **__: Any) -> tuple[str, str]:
        namespace, slash, name = str(value).partition("/")
        if not (slash and _NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            raise ValidationError("must be NAMESPACE/NAME")
        return namespace, name


class ObjectField(fields.Field[dict[str, Any]]):
    """A JSON object."""

    @override
    def _deserialize(self, value: Any, *_: Any, **__: Any) -> dict[str, Any]:
        try:
            found = json.loads(str(value))
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValidationError(f"must be a JSON object: {error}") from error
        if not isinstance(found, dict):
            raise ValidationError("must be a JSON object")
        return found


class CompanionKindsField(fields.Field[tuple[CompanionKind, ...]]):
    """A JSON list of objects with apiVersion, kind and resource."""

    @override
    def _deserialize(self, value: Any, *_: Any, **__: Any) -> tuple[CompanionKind, ...]:
        try:
            return tuple(read_kinds(json.loads(str(value))))
        except (RecursionError, ValueError) as error:
            raise ValidationError(f"must be a JSON list of kinds: {error}") from error


def name_field(**options: Any) -> fields.String:
    """Return a field for the name of a Kubernetes object (RFC 1123)."""
    return fields.String(validate=validate.Regexp(rf"{_NAME.pattern}\Z"), **options)


TLS_PORT: Final = "tls_port"
"""Name of the setting for the HTTPS port, which `read_settings` checks against `binds`."""
COMPANION_KINDS: Final = Setting(
    "companion_kinds",
    CompanionKindsField(load_default=()),
    "kinds of objects that jobs may bring along, a JSON list; empty: none",
)
KUBECONFIG: Final = Setting(
    "kubeconfig", fields.String(load_default=None), "empty: the pod's own service account"
)
CERT_DIR: Final = Setting(
    "cert_dir",
    fields.Function(deserialize=Path, load_default=Path("/certs")),
    "folder with tls.crt and tls.key; read again when they change",
)
HEALTH_BIND: Final = Setting(
    "health_bind",
    AddressField(load_default=None),
    "address of one more listener, plain HTTP, for /healthz, /readyz and /metrics; empty: none",
)
DRAIN_SECONDS: Final = Setting(
    "drain_seconds",
    fields.Float(load_default=5.0, validate=validate.Range(0, 300)),
    "seconds after SIGTERM in which new connections are still taken",
)
LOG_LEVEL: Final = Setting(
    "log_level",
    fields.String(load_default="info", validate=validate.OneOf(LEVELS)),
    f"least level that is written: {', '.join(LEVELS)}",
)


def read_settings(
    settings: Iterable[Setting],
    *,
    program: str,
    about: str,
    prefix: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    unprefixed: Iterable[Setting] = (),
) -> dict[str, Any]:
    """Return the values by name; a flag overrides its variable, an empty value counts as absent.

    Args:
        settings: the known settings.
        program: its name, for --help.
        about: a sentence, for --help.
        prefix: of the variables, as `DI_SERVER_`.
        argv: without the program's name.
        environ: other variables in it are ignored.
        unprefixed: settings whose variable has no prefix, as KUBECONFIG.

    Raises:
        SettingsError: values are missing or wrong; all of them are named.
        SystemExit: argparse's own: an unknown flag, or --help.
    """
    by_variable = {f"{prefix}{each.name.upper()}": each for each in settings}
    by_variable |= {each.name.upper(): each for each in unprefixed}
    parser = argparse.ArgumentParser(
        prog=program, description=f"{about} Every flag is also a variable of the environment."
    )
    for variable, each in by_variable.items():
        flag = "--" + each.name.replace("_", "-")
        parser.add_argument(flag, dest=variable, metavar="TEXT", help=_help(variable, each))
    flags = {key: text for key, text in vars(parser.parse_args(argv)).items() if text is not None}
    given = {**environ, **flags}
    wanted = {variable: given[variable] for variable in by_variable if given.get(variable)}
    schema = Schema.from_dict({variable: each.field for variable, each in by_variable.items()})()
    try:
        values = schema.load(wanted)
    except ValidationError as error:
        messages = error.messages_dict
        raise SettingsError(
            "; ".join(
                f"{variable}={wanted.get(variable, '')!r}: {' '.join(messages[variable])}"
                for variable in sorted(messages)
            )
        ) from error
    found = {each.name: values[variable] for variable, each in by_variable.items()}
    port = found.get(TLS_PORT)
    if port is not None and port not in [each.port for each in found["binds"]]:
        raise SettingsError(
            f"{prefix}{TLS_PORT.upper()}={str(port)!r}: must be the port of one of the binds"
        )
    return found


def refuse_to_start(program: str, error: Exception) -> NoReturn:
    """Print the error and exit with code 2, as for an unknown flag."""
    print(f"{program}: {error}", file=sys.stderr)
    sys.exit(2)


def _help(variable: str, setting: Setting) -> str:
    default = setting.field.load_default
    shown = (
        "" if default in (None, missing) or callable(default) else f"; default: {_text(default)}"
    )
    return f"{setting.text}{shown} [{variable}]".replace("%", "%%")


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return str(value)
