"""Texts that an API server takes as quantities of a pod, or refuses; tried on a real one."""

from __future__ import annotations

TAKEN = {
    "500m": "0.5",
    "1.5Gi": str(3 * 2**29),
    "1e3": "1000",
    "1E3": "1000",
    "1e+3": "1000",
    "1e-3": "0.001",
    "1e-99": "1e-9",
    "1E": "1e18",
    "7Ei": str(7 * 2**60),
    ".5": "0.5",
    "5.": "5",
    "1.Gi": str(2**30),
    "+100n": "1e-7",
    "7u": "7e-6",
    "007": "7",
    " 1Gi ": str(2**30),
    "9223372036854775807": str(2**63 - 1),
    # Zero, for what is missing of a number counts as nothing.
    "m": "0",
    "+Ki": "0",
    ".": "0",
    "+": "0",
    "e3": "0",
}
"""With their values."""

TOO_LARGE = ["9223372036854775808", "8Ei", "1e19", "1e99", "9" * 64]
"""Taken by the API server, which keeps the first and cuts the second."""

REFUSED = {
    "nothing": "",
    "a space": " ",
    "bytes": "10GB",
    "a space inside": "1 Gi",
    "a suffix in the wrong case": "1gi",
    "a kilo in capitals": "1K",
    "two signs": "--1",
    "two points": "1.2.3",
    "an exponent without digits": "1e",
    "an exponent and a suffix": "1e3i",
    "a hexadecimal number": "0x10",
    "a newline": "1\n",
    "a tab": "\t1",
    "a digit of another script": "\u0661",
    "less than nothing": "-1",
}
