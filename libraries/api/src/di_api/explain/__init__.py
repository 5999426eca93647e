"""Why a job is as it is: its cause, the facts behind it, and what to do; pure."""

from di_api.explain.cause import Cause
from di_api.explain.explanation import Evidence, Explanation
from di_api.explain.facts import Facts
from di_api.explain.ladder import explain
from di_api.explain.refusals import explain_refusal

__all__ = ["Cause", "Evidence", "Explanation", "Facts", "explain", "explain_refusal"]
