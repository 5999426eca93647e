"""Which addresses count as one client."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

_SITE_BITS: Final = 64


@lru_cache(maxsize=4096)
def plain_address(address: str) -> str:
    """Return an address without the IPv6 form that a socket for both families gives to IPv4."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = ip.ipv4_mapped if ip.version == 6 else None
    return str(mapped or ip)


@lru_cache(maxsize=4096)
def source_of(address: str) -> str:
    """Who an address counts as: of IPv6 its /64, for that much one machine has to choose from.

    An IPv4 address within IPv6 is that address; what is none at all counts as one source.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if ip.version == 4:
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, _SITE_BITS), strict=False))
