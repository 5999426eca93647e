"""docker-compose sets the services up as the chart does, but for where they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from compose.register import configurations
from di_certs.main import main as certificates
from di_operator.config import load_config
from di_server.config import load_config as load_server_config
from di_server.storage.reviews import AUDIENCE
from di_webhook.config import load_config as load_webhook_config
from tests.chart.chart import CHART, COMPONENTS, GIVEN_SECRETS, Chart

ROOT = CHART.parents[1]


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return found


def resolved(value: Any, environment: Mapping[str, str]) -> Any:
    """A part of the file with its ${NAME:-default}s replaced."""
    if isinstance(value, dict):
        return {k: resolved(v, environment) for k, v in value.items()}
    if isinstance(value, list):
        return [resolved(v, environment) for v in value]
    if not isinstance(value, str):
        return value
    return re.sub(
        r"\$\{(\w+)(?::[-?]([^}]*))?\}", lambda m: environment.get(m[1]) or m[2] or "", value
    )


@pytest.mark.parametrize("address", [None, "10.0.0.1"], ids=["by default", "as told"])
def test_every_service_understands_its_settings(
    services: dict[str, Any], address: str | None
) -> None:
    given = resolved(services, {"DI_HOST_ADDRESS": address} if address else {})
    host = address or "127.0.0.1"
    operator = load_config([], given["operator"]["environment"], random_identity=str)
    server = load_server_config([], given["server"]["environment"])
    webhook = load_webhook_config([], given["webhook"]["environment"])
    assert operator.server_url == f"http://{host}:8081"
    assert operator.webhook_secret is None
    # All share the machine's ports.
    health = [webhook.health_bind, operator.health_bind]
    reached = [webhook.bind, *server.binds]
    ports = [bind.port for bind in health + reached]
    assert len(ports) == len(set(ports))
    # Whoever else reaches this machine reaches none of them.
    assert {bind.host for bind in health} == {"127.0.0.1"}
    assert {bind.host for bind in reached} == {host}


def test_callers_need_a_token_and_pods_get_one(services: dict[str, Any]) -> None:
    def auth(environment: Mapping[str, str]) -> str:
        settings = resolved(services["server"]["environment"], environment)
        return load_server_config([], settings).auth.value

    assert auth({}) == "required"
    assert auth({"DI_SERVER_AUTH": "optional"}) == "optional"
    settings = resolved(services["operator"]["environment"], {})
    assert load_config([], settings, random_identity=str).token_audience == AUDIENCE


def test_no_service_can_run_as_root(services: dict[str, Any]) -> None:
    users = {name: resolved(service["user"], {}) for name, service in services.items()}
    assert users == {
        "certificates": "65532:65532",
        "webhook": "65532:65532",
        # Those that read the kubeconfig.
        **dict.fromkeys(("register", "operator", "server"), "1000:1000"),
    }
    for service in services.values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["read_only"] is True


def test_only_the_certificates_service_has_the_authoritys_key(
    services: dict[str, Any], tmp_path: Path
) -> None:
    mounts = {
        name: {v.partition(":")[0] for v in service["volumes"] if isinstance(v, str)}
        for name, service in services.items()
    }
    assert [name for name, volumes in mounts.items() if "authority" in volumes] == ["certificates"]
    assert {n for n, volumes in mounts.items() if "certificates" in volumes} == {
        "certificates",
        "register",
        "webhook",
    }
    # What the command leaves where.
    command = resolved(services["certificates"]["entrypoint"], {})
    assert command[0] == "di-certs"
    certificates([str(tmp_path) + word if word.startswith("/") else word for word in command[1:]])
    assert names_in(tmp_path / "certs") == {"ca.crt", "tls.crt", "tls.key"}
    assert names_in(tmp_path / "authority") == {"ca.crt", "ca.key"}


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_image_has_the_mount_points_of_volumes(services: dict[str, Any]) -> None:
    # Otherwise the volumes would be root's, and no service could write into them.
    text = (ROOT / "services/operator/Dockerfile").read_text()
    volumes = [v.partition(":")[2] for v in services["certificates"]["volumes"]]
    made = re.findall(r"install -d -m \d+ /opt/volumes(/\S+)", text)
    assert sorted(made) == sorted(volumes)
    assert "COPY --from=builder --chown=65532:65532 /opt/volumes /" in text


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_service_is_built_from_its_dockerfile(
    services: dict[str, Any], component: str
) -> None:
    build = services[component]["build"]
    assert (ROOT / build["context"] / build["dockerfile"]).is_file()
    assert build["dockerfile"] == f"services/{component}/Dockerfile"


def test_mounted_folders_exist(services: dict[str, Any]) -> None:
    mounts = [v for service in services.values() for v in service["volumes"] if isinstance(v, str)]
    folders = [mount.partition(":")[0] for mount in mounts if mount.startswith("./")]
    assert folders
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_webhook_registrations_match_the_chart(chart: Chart) -> None:
    def asked(body: Any) -> list[Any]:
        return [
            {key: value for key, value in webhook.items() if key != "clientConfig"}
            for webhook in body["webhooks"]
        ]

    for resource, body in configurations("10.0.0.1", b"pem").items():
        charted = chart.render(*GIVEN_SECRETS).one(resource.kind, "di-di-orchestrator")
        assert asked(body) == asked(charted)
        path = charted["webhooks"][0]["clientConfig"]["service"]["path"]
        assert body["webhooks"][0]["clientConfig"]["url"] == f"https://10.0.0.1:8443{path}"
