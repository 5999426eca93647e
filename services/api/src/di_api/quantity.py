"""Kubernetes quantities: `500m`, `1.5Gi`, `2`, `1e3`.

The grammar is that of the API server. Values are decimals in the base unit (cores, bytes,
pieces) with 28 significant digits, so that sums of them do not drift.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_BINARY: Final = {f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
}
_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?\d{1,2}))?",
    re.ASCII,
)
# Longer ones are no sizes of anything; the bound keeps arithmetic on input cheap.
_LONGEST: Final = 64
_LARGEST: Final = Decimal(2**63 - 1)


class QuantityRangeError(ValueError):
    """A quantity, but larger than the API server can hold (2^63 - 1)."""


def parse_quantity(value: str | int | float) -> Decimal:
    """The value of a quantity as it stands in a manifest, number or text.

    Raises:
        QuantityRangeError: it is larger than the API server can hold.
        ValueError: it is not a quantity.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"not a quantity: {type(value).__name__}")
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise QuantityRangeError("quantity out of range")
    text = str(value)
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise ValueError(f"not a quantity: {text[:_LONGEST]}")
    number = Decimal(found["number"])
    if found["exponent"]:
        number = number.scaleb(int(found["exponent"]))
    else:
        suffix = found["suffix"] or ""
        number *= _BINARY.get(suffix) or _DECIMAL[suffix]
    if abs(number) > _LARGEST:
        raise QuantityRangeError(f"quantity out of range: {text}")
    return number


def format_quantity(value: Decimal) -> str:
    """The shortest exact text: whole Gi, Mi or Ki where it is one, else plain or milli.

    Anything finer than a thousandth is rounded up, as the API server does.
    """
    if value == value.to_integral_value():
        whole = int(value)
        for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
            unit = int(_BINARY[suffix])
            if whole and whole % unit == 0:
                return f"{whole // unit}{suffix}"
        return str(whole)
    milli = (value * 1000).to_integral_value(rounding="ROUND_CEILING")
    return format_quantity(milli / 1000) if milli % 1000 == 0 else f"{milli}m"
