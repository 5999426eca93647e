"""Settings of the webhook: defaults, and clear refusals."""

from __future__ import annotations

import pytest

from di_service.settings import SettingsError
from di_webhook.config import load_config


def test_the_defaults_are_the_ports_of_the_chart() -> None:
    config = load_config([], {})
    assert str(config.bind) == "[::]:8443"
    assert str(config.health_bind) == "[::]:8080"
    assert str(config.cert_dir) == "/certs"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("DI_WEBHOOK_BIND", value) for value in ("8443", "host:", "host:70000")),
        ("DI_WEBHOOK_HEALTH_BIND", ":8080"),
        *(("DI_WEBHOOK_THREADS", value) for value in ("0", "many")),
        ("DI_WEBHOOK_LOG_LEVEL", "loud"),
        ("DI_WEBHOOK_COMPANION_KINDS", "ConfigMap"),
        ("DI_WEBHOOK_COMPANION_KINDS", "{}"),
        (
            "DI_WEBHOOK_COMPANION_KINDS",
            '[{"apiVersion": "v1", "kind": "Secret", "resource": "secrets"}]',
        ),
    ],
)
def test_a_bad_setting_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load_config([], {name: value})
