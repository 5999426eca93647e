"""docker-compose sets the services up as the chart does, but for where they are."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from compose.register import configurations
from di_operator.config import load_config
from di_server.config import from_environment
from di_webhook.config import Config as WebhookConfig
from tests.chart.chart import CHART, COMPONENTS, Chart

ROOT = CHART.parents[1]


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return found


def settings(service: dict[str, Any]) -> dict[str, str]:
    return {
        k: v.replace("${DI_HOST_ADDRESS}", "10.0.0.1") for k, v in service["environment"].items()
    }


def test_every_service_understands_its_settings(services: dict[str, Any]) -> None:
    operator = load_config([], settings(services["operator"]), random_identity=str)
    assert operator.server_url == "http://10.0.0.1:8081"
    assert operator.webhook_secret is None
    assert from_environment(settings(services["server"])).auth.value == "off"
    webhook = WebhookConfig.from_environment(settings(services["webhook"]))
    # All share the machine's ports.
    binds = [webhook.bind, webhook.health_bind, f"{operator.health.host}:{operator.health.port}"]
    binds += from_environment(settings(services["server"])).binds
    ports = [bind.rpartition(":")[2] for bind in binds]
    assert len(ports) == len(set(ports))


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_service_is_built_from_its_dockerfile(
    services: dict[str, Any], component: str
) -> None:
    build = services[component]["build"]
    assert (ROOT / build["context"] / build["dockerfile"]).is_file()
    assert build["dockerfile"] == f"services/{component}/Dockerfile"
    assert services[component]["read_only"] is True


def test_what_is_mounted_exists(services: dict[str, Any]) -> None:
    mounts = [v for service in services.values() for v in service["volumes"] if isinstance(v, str)]
    folders = [mount.partition(":")[0] for mount in mounts if mount.startswith("./")]
    assert folders
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_the_api_server_asks_about_the_same_as_with_the_chart(chart: Chart) -> None:
    def asked(body: Any) -> list[Any]:
        return [
            {key: value for key, value in webhook.items() if key != "clientConfig"}
            for webhook in body["webhooks"]
        ]

    for resource, body in configurations("10.0.0.1", b"pem").items():
        charted = chart.render().one(resource.kind, "di-di-orchestrator")
        assert asked(body) == asked(charted)
        path = charted["webhooks"][0]["clientConfig"]["service"]["path"]
        assert body["webhooks"][0]["clientConfig"]["url"] == f"https://10.0.0.1:8443{path}"
