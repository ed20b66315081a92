"""The network addresses that an image may come from."""

from __future__ import annotations

import ipaddress
from typing import Final

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

#: An IPv4 address inside an IPv6 one, for gateways (RFC 6052).
_GATEWAY: Final = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(address: IpAddress) -> bool:
    """True for an address of the internet: not this machine, its networks, or a special range."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _GATEWAY:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not address.is_multicast
