"""The configuration: variables, flags, defaults, and one message for all mistakes."""

from __future__ import annotations

import pytest

from di_operator.builders.pinning import Binding
from di_operator.config import Config, load_config
from di_service.settings import Address, SettingsError


def load(*argv: str, **environ: str) -> Config:
    environ.setdefault("DI_OPERATOR_NAMESPACE", "di-system")
    return load_config(argv, environ, random_identity=lambda: "random")


def test_unset_variables_have_defaults() -> None:
    config = load()
    assert config.watch_namespace is None
    assert config.service_domain == "svc.cluster.local"
    assert config.server_url == "http://di-server.di-system.svc.cluster.local:8081"
    assert config.health_bind == Address(host="::", port=8080)
    assert config.lease_name == "di-operator"
    assert config.identity == "random"
    assert config.leader_elect is True
    assert config.sync_period == 60.0
    assert (config.job_metrics, config.notification_targets) == (200, ())
    assert config.webhook_secret is None
    assert config.kubeconfig is None
    assert config.binding is Binding.SCHEDULER
    assert config.high_priority_class is None


def test_variables_are_read_by_type() -> None:
    config = load(
        DI_OPERATOR_HEALTH_BIND="[::1]:9000",
        DI_OPERATOR_LEADER_ELECT="false",
        DI_OPERATOR_SYNC_PERIOD="2.5",
        DI_OPERATOR_SERVER_URL="http://elsewhere:80/",
        DI_OPERATOR_AGGREGATOR_TEMPLATE='{"spec": {}}',
        DI_OPERATOR_BINDING="Direct",
        PATH="/usr/bin",
    )
    assert config.health_bind == Address(host="::1", port=9000)
    assert config.leader_elect is False
    assert config.sync_period == 2.5
    assert config.aggregator_template == {"spec": {}}
    assert config.binding is Binding.DIRECT
    assert config.server_url == "http://elsewhere:80"


def test_the_node_type_label_is_a_valid_label_key() -> None:
    assert load().node_kind_label is None
    for label in ("gpu", "nvidia.com/gpu.product"):
        assert load(DI_OPERATOR_NODE_KIND_LABEL=label).node_kind_label == label
    for label in ("gpu=a", "/gpu", "a/b/c", "x" * 64):
        with pytest.raises(SettingsError, match="NODE_KIND_LABEL"):
            load(DI_OPERATOR_NODE_KIND_LABEL=label)


@pytest.mark.parametrize("argument", ['{"shares": {"a": 3}}', '{"queues": {"a": {"weight": 3}}}'])
def test_shares_with_several_node_types_are_refused_under_goodput(argument: str) -> None:
    shares = {"DI_OPERATOR_POLICY_ARGUMENTS": argument}
    kinds = {"DI_OPERATOR_NODE_KIND_LABEL": "gpu"}
    for policy in ("fit", "goodput"):
        load(DI_OPERATOR_POLICY=policy, **shares)
    load(DI_OPERATOR_POLICY="fit", **shares, **kinds)
    with pytest.raises(SettingsError, match="do not go with DI_OPERATOR_NODE_KIND_LABEL"):
        load(DI_OPERATOR_POLICY="goodput", **shares, **kinds)


def test_an_empty_variable_counts_as_unset() -> None:
    config = load(DI_OPERATOR_WATCH_NAMESPACE="", DI_OPERATOR_SYNC_PERIOD="")
    assert config.watch_namespace is None
    assert config.sync_period == 60.0


def test_a_flag_wins_over_its_variable() -> None:
    config = load("--sync-period", "5", DI_OPERATOR_SYNC_PERIOD="7")
    assert config.sync_period == 5


def test_all_invalid_variables_are_named_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load(
            DI_OPERATOR_NAMESPACE="",
            DI_OPERATOR_SYNC_PERIOD="often",
            DI_OPERATOR_HEALTH_BIND="8080",
            DI_OPERATOR_WATCH_NAMESPACE="../etc",
        )
    message = str(caught.value)
    for variable in ("NAMESPACE", "SYNC_PERIOD", "HEALTH_BIND", "WATCH_NAMESPACE"):
        assert f"DI_OPERATOR_{variable}=" in message


@pytest.mark.parametrize(
    ("given", "authority"),
    [
        ({}, None),
        ({"SERVER": "b"}, "b-ca"),
        ({"SERVER": "b", "WEBHOOK": "a"}, "a-ca"),
        ({"SERVER": "b", "WEBHOOK": "a", "AUTHORITY": "c"}, "c"),
    ],
)
def test_one_authority_issues_all_certificates(
    given: dict[str, str], authority: str | None
) -> None:
    variables = {f"DI_OPERATOR_{name}_SECRET": value for name, value in given.items()}
    assert load(DI_OPERATOR_WEBHOOK_CONFIGURATION="di", **variables).authority_secret == authority


def test_the_server_url_is_https_when_pods_have_the_authority() -> None:
    config = load(DI_OPERATOR_SERVER_CA_SECRET="di-server-tls")
    assert config.server_url == "https://di-server.di-system.svc.cluster.local:8443"
    assert config.coordinated_server_url == "http://di-server.di-system:8080"


def test_managed_certificates_require_a_webhook_configuration() -> None:
    with pytest.raises(SettingsError, match="DI_OPERATOR_WEBHOOK_CONFIGURATION"):
        load(DI_OPERATOR_WEBHOOK_SECRET="di-webhook-tls")
