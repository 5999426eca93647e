"""Check that the webhook validates jobs, by the dry run of a job that only the webhook refuses."""

from __future__ import annotations

from collections.abc import Iterator

from di_api.field_error import items, mapping
from di_cli.diagnosis.facts import Facts
from di_cli.diagnosis.finding import Finding, fault, unread, warning

NAME = "validate.dijobs.diengine.opendilab.org"
_PUBLISHED = (
    "the operator's leader publishes them: see the topic operator; a second release for the same "
    "jobs gets none while the first one runs"
)


def check(facts: Facts) -> Iterator[Finding]:
    """Check the result of that dry run, and the configuration."""
    answer = facts.refusal
    look = f"kubectl get pods -n {facts.system} -l app.kubernetes.io/component=webhook"
    without_rules = [*_without_rules(facts)]
    if answer.is_good:
        # Otherwise the reason follows below.
        if not without_rules:
            yield warning(
                f"jobs of namespace {facts.namespace} are stored without a review by the webhook",
                where="a job that the webhook refuses was taken, in a dry run",
                remedy="helm upgrade with webhook.enabled=true; without, the operator fails bad "
                "jobs",
            )
    elif "failed calling webhook" in answer.words:
        yield _unreachable(answer.words, look)
    elif "denied the request" not in answer.words and not facts.jobs.is_missing:
        yield unread(answer, "whether the webhook answers (create dijobs)")
    if not facts.validating.is_good:
        yield unread(facts.validating, "the webhook configurations")
        return
    for name in without_rules:
        yield warning(
            "a webhook configuration has no rules: its webhook reviews no job",
            where=f"{name}: webhooks[].rules",
            remedy=_PUBLISHED,
        )
    for configuration in facts.validating.found:
        for hook in map(mapping, items(configuration.get("webhooks"))):
            if hook.get("name") == NAME and hook.get("failurePolicy") == "Ignore":
                yield warning(
                    "jobs are stored unjudged while the webhook is away",
                    where=f"{mapping(configuration.get('metadata')).get('name')}: failurePolicy",
                    remedy="helm upgrade: the chart says Fail",
                )


def _without_rules(facts: Facts) -> Iterator[str]:
    """Yield the names of the validating configurations that have a webhook without rules."""
    for configuration in facts.validating.found:
        hooks = map(mapping, items(configuration.get("webhooks")))
        if any(not items(hook.get("rules")) for hook in hooks):
            yield str(mapping(configuration.get("metadata")).get("name"))


def _unreachable(words: str, look: str) -> Finding:
    if "x509" in words or "certificate" in words:
        return fault(
            "the API server does not trust the webhook's certificate: no job can be made or "
            "changed",
            where=words,
            remedy="the operator's leader makes and publishes it: see the topics operator and "
            "certificates",
        )
    return fault(
        "the API server does not reach the webhook: no job can be made or changed",
        where=words,
        remedy=f"{look}; a firewall has to let the API server reach port 8443 of pods",
    )
