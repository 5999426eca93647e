"""The interval of reports of local jobs, which pods and di-server share."""

from __future__ import annotations

from typing import Final

REPORT_SECONDS: Final = 0.25
"""Seconds between two reports of a pod. A report takes 8 ms of processor time here, and a sweep
decides by reports which trials stop.
"""
