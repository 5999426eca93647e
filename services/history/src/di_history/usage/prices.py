"""Prices of GPU time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The price of an hour of one GPU, by the value of a label of its node.

    Attributes:
        label: key of the label; empty: there are no prices.
        hourly: by the value of the label.
    """

    label: str = ""
    hourly: Mapping[str, float] = field(default_factory=dict)
