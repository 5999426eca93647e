"""What is wrong with an installation, by what was read of it: pure, one topic a module."""

from di_cli.diagnosis.checks import Report, count, diagnose
from di_cli.diagnosis.facts import Answer, Facts
from di_cli.diagnosis.finding import Finding, Severity

__all__ = ["Answer", "Facts", "Finding", "Report", "Severity", "count", "diagnose"]
