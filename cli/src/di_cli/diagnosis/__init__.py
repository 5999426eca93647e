"""Checks of an installation, from data that was read of it: pure functions, one topic per
module.
"""

from di_cli.diagnosis.checks import Report, count, diagnose
from di_cli.diagnosis.facts import Answer, Facts
from di_cli.diagnosis.finding import Finding, Severity

__all__ = ["Answer", "Facts", "Finding", "Report", "Severity", "count", "diagnose"]
