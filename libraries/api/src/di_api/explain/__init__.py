"""Explanation of a job's state: its cause, the evidence, and what to do. All functions are pure."""

from di_api.explain.cause import Cause
from di_api.explain.explanation import Evidence, Explanation
from di_api.explain.facts import Facts
from di_api.explain.ladder import explain
from di_api.explain.refusals import explain_refusal

__all__ = ["Cause", "Evidence", "Explanation", "Facts", "explain", "explain_refusal"]
