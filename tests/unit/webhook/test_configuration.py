"""Settings of the webhook: defaults, and clear refusals."""

from __future__ import annotations

import pytest

from di_webhook.config import Config, InvalidConfig, split_address


def test_an_empty_environment_gives_the_ports_of_the_chart() -> None:
    config = Config.from_environment({})
    assert config.bind == "0.0.0.0:8443"
    assert config.health_bind == "0.0.0.0:8080"
    assert str(config.certificate_dir) == "/certs"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DI_WEBHOOK_BIND", "8443"),
        ("DI_WEBHOOK_BIND", "host:"),
        ("DI_WEBHOOK_BIND", "host:70000"),
        ("DI_WEBHOOK_HEALTH_BIND", ":8080"),
        ("DI_WEBHOOK_THREADS", "0"),
        ("DI_WEBHOOK_THREADS", "many"),
        ("DI_WEBHOOK_LOG_LEVEL", "loud"),
    ],
)
def test_a_bad_setting_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=name):
        Config.from_environment({name: value})


@pytest.mark.parametrize(
    ("address", "parts"), [("0.0.0.0:80", ("0.0.0.0", 80)), ("[::]:80", ("::", 80))]
)
def test_addresses_are_split_at_the_last_colon(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts
