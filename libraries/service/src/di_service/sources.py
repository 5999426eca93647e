"""Grouping of client addresses into sources."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

_SITE_BITS: Final = 64


@lru_cache(maxsize=4096)
def plain_address(address: str) -> str:
    """Return an address without the IPv6 form of IPv4 that a dual-stack socket returns."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = ip.ipv4_mapped if ip.version == 6 else None
    return str(mapped or ip)


@lru_cache(maxsize=4096)
def source_of(address: str) -> str:
    """Return the source of an address: for IPv6 its /64, because one machine can use all of that.

    An IPv4-mapped IPv6 address is that IPv4 address; all invalid addresses are one source.
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
