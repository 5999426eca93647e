"""Each alert, as promtool runs it: series that let it fire, and others that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Series = tuple[str, str]
"""A series and its values, one a minute, as promtool writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What an alert is tried with, looked at after half an hour."""

    fires: Sequence[Series]
    quiet: Sequence[Series]
    labels: Mapping[str, str]
    """Of the alert that fires, beside its severity."""


_DI: Final = {"namespace": "di"}
_JOB: Final = {"namespace": "rl", "dijob": "x"}


def _one(series: str, fires: str, quiet: str, **labels: str) -> Case:
    return Case(fires=[(series, fires)], quiet=[(series, quiet)], labels=labels)


CASES: Final[Mapping[str, Case]] = {
    "DIOperatorNoLeader": _one('di_operator_leading{pod="a",namespace="di"}', "0x60", "1x60"),
    "DIOperatorAway": _one(
        'di_operator_cache_away_seconds{pod="a",namespace="di",plural="pods"}',
        "0x5 70+60x55",
        "0 5 0x58",
        namespace="di",
        pod="a",
        plural="pods",
    ),
    "DIOperatorDutyFailing": _one(
        'di_operator_duty_failures_total{pod="a",namespace="di",duty="poll"}',
        "0+1x60",
        "1x60",
        namespace="di",
        duty="poll",
    ),
    "DIOperatorReconcileErrors": _one(
        'di_operator_reconciles_total{pod="a",namespace="di",result="error"}',
        "0+1x60",
        "4x60",
        namespace="di",
    ),
    "DIOperatorUnreadable": _one(
        'di_operator_unreadable{pod="a",namespace="di",kind="DIJob"}',
        "2x60",
        "0x60",
        namespace="di",
        kind="DIJob",
    ),
    "DIOperatorBehind": _one(
        'di_operator_queue_length{pod="a",namespace="di"}',
        "200x60",
        "0x10 200 0x48",
        namespace="di",
        pod="a",
    ),
    "DIServerErrors": Case(
        fires=[
            ('di_server_requests_total{namespace="di",code="500"}', "0+6x60"),
            ('di_server_requests_total{namespace="di",code="200"}', "0+60x60"),
        ],
        quiet=[
            ('di_server_requests_total{namespace="di",code="500"}', "0+1x60"),
            ('di_server_requests_total{namespace="di",code="200"}', "0+60x60"),
        ],
        labels=_DI,
    ),
    "DIServerUnreadable": _one(
        'di_server_unreadable_objects{pod="a",namespace="di",resource="pods"}',
        "1x60",
        "0x60",
        namespace="di",
        resource="pods",
    ),
    "DIServerMembersApart": _one(
        'di_server_member_exchanges_total{pod="a",namespace="di",result="failed"}',
        "0+10x60",
        "0+1x60",
        namespace="di",
    ),
    "DIServerCertificateExpires": _one(
        'di_server_certificate_expiry_timestamp_seconds{pod="a",namespace="di"}',
        "100000x60",
        "1000000x60",
        namespace="di",
    ),
    "DIWebhookFaults": _one(
        'di_webhook_faults_total{pod="a",namespace="di"}', "0+1x60", "3x60", namespace="di"
    ),
    "DIWebhookSlow": Case(
        fires=[
            (f'di_webhook_admission_seconds_bucket{{namespace="di",le="{le}"}}', "0+60x60")
            for le in ("5", "+Inf")
        ],
        quiet=[
            (f'di_webhook_admission_seconds_bucket{{namespace="di",le="{le}"}}', "0+60x60")
            for le in ("0.5", "5", "+Inf")
        ],
        labels=_DI,
    ),
    "DIWebhookCertificateExpires": _one(
        'di_webhook_certificate_expiry_timestamp_seconds{pod="a",namespace="di"}',
        "100000x60",
        "0x60",
        namespace="di",
    ),
    "DIHistoryBehind": _one(
        'di_history_followed_seconds{pod="a",namespace="di"}',
        "700+60x60",
        "NaN 5x60",
        namespace="di",
    ),
    "DIJobHung": _one(
        'di_job_hung{pod="a",namespace="rl",dijob="x"}', "1x60", "0x60", namespace="rl", dijob="x"
    ),
    "DIJobRestartsOften": _one(
        'di_job_restarts_total{pod="a",namespace="rl",dijob="x"}',
        "0+1x60",
        "4x60",
        namespace="rl",
        dijob="x",
    ),
    "DIJobWaitsLong": _one(
        'di_job_queue_wait_seconds{pod="a",namespace="rl",dijob="x"}',
        "14000+60x60",
        "60+60x60",
        namespace="rl",
        dijob="x",
    ),
}
