"""Images, videos and documents from the web, as far as ``--allowed_media_domains`` allows.

A request must not make the server reach what only the server can reach. So a host must be on the
list; its addresses are looked up once, checked, and connected to exactly as checked; and each
redirection is checked like a new address. No proxy, cookie or password is used.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Final, Literal

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from calculators.images.media.image import MAX_IMAGE_BYTES
from calculators.images.media.media_rules import MediaRules
from graphrt_base.regular_file import raise_if_exhausted

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


#: Time limit for one of them, redirections included.
SECONDS: Final = 10.0
MAX_REDIRECTIONS: Final = 3
_REDIRECTIONS: Final = frozenset({301, 302, 303, 307, 308})
_USUAL_PORTS: Final = frozenset({80, 443})
_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": "graphrt"}
_PIECE: Final = 64 * 1024

_OFF: Final = "from the web are off on this server; it allows hosts with --allowed_media_domains"
_PRIVATE: Final = (
    "the host has a private address, which --allowed_media_domains would have to name itself"
)


class _PrivateAddress(OSError):
    """A host has no address that the server may connect to."""


class _CheckedResolver(AbstractResolver):
    """Resolves names to the addresses that the server may connect to."""

    def __init__(self, rules: MediaRules) -> None:
        self._rules = rules

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        checked = [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=each_family,
                proto=protocol,
                flags=socket.AI_NUMERICHOST,
            )
            for each_family, _, protocol, _, address in found
            if _may_connect(str(address[0]), self._rules)
        ]
        if not checked:
            raise _PrivateAddress
        return checked

    async def close(self) -> None:
        return


async def download(
    url: str,
    rules: MediaRules,
    *,
    what: Literal["image", "video", "document"] = "image",
    most: int = MAX_IMAGE_BYTES,
    seconds: float = SECONDS,
) -> bytes:
    """Fetch the bytes of an image or of another document.

    Args:
        most: bytes of the largest one.

    Raises:
        ValueError: it may not or cannot be fetched; the text is for the client.
    """
    if not rules.allowed_media_domains:
        raise ValueError(f"{what}s {_OFF}")
    try:
        async with asyncio.timeout(seconds):
            return await _download(_checked(url, rules), rules, what, most)
    except TimeoutError:
        raise ValueError(f"the {what} was not there within {seconds:g} seconds") from None
    except _PrivateAddress:
        raise ValueError(_PRIVATE) from None
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, _PrivateAddress):
            raise ValueError(_PRIVATE) from None
        raise_if_exhausted(error.os_error)
        raise ValueError("its server cannot be reached") from None
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error, OSError):
            raise_if_exhausted(error)
        raise ValueError("its server did not send it") from None


def _checked(text: str, rules: MediaRules, base: URL | None = None) -> URL:
    """Return the parsed address, exactly as it will be connected to."""
    try:
        url = URL(text) if base is None else base.join(URL(text))
        host, port = url.host, url.port
    except ValueError:
        raise ValueError("the address is not a URL") from None
    if url.scheme not in ("http", "https") or not host or "\\" in text:
        raise ValueError("an address on the web starts with http:// or https:// and has a host")
    if url.user is not None or url.password is not None:
        raise ValueError("an address with a user or a password is not used")
    if not rules.allows_host(host):
        raise ValueError(f'the host "{host[:100]}" is not one of --allowed_media_domains')
    if rules.allows_every_host and port not in _USUAL_PORTS:
        raise ValueError("only ports 80 and 443 are allowed where every host is")
    if _is_written_as_number(host) and not _may_connect(host, rules):
        raise ValueError(_PRIVATE)
    return url


async def _download(url: URL, rules: MediaRules, what: str, most: int) -> bytes:
    # The address that was checked must be the one that is connected to: no answer of DNS and no
    # connection is used twice.
    connector = aiohttp.TCPConnector(
        resolver=_CheckedResolver(rules), use_dns_cache=False, force_close=True
    )
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        # Kilobytes could become gigabytes.
        auto_decompress=False,
        headers={"Accept": "image/*" if what == "image" else "*/*", **_HEADERS},
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        for _ in range(MAX_REDIRECTIONS + 1):
            # Each address is checked before it is asked: a public one may lead to a private one.
            async with session.get(url, allow_redirects=False) as response:
                if response.status not in _REDIRECTIONS:
                    return await _read(response, what, most)
                location = response.headers.get("Location", "")
            url = _checked(location, rules, url)
    raise ValueError(f"its server sends on more than {MAX_REDIRECTIONS} times")


async def _read(response: aiohttp.ClientResponse, what: str, most: int) -> bytes:
    if response.status != 200:
        raise ValueError(f"its server answered with status {response.status}")
    data = bytearray()
    # Counted here, because a server's length need not be true.
    async for piece in response.content.iter_chunked(_PIECE):
        data += piece
        if len(data) > most:
            raise ValueError(f"the {what} is larger than {most} bytes")
    return bytes(data)


def _is_written_as_number(host: str) -> bool:
    """Return True for a host that aiohttp takes for an address without asking the resolver."""
    return ":" in host or host.replace(".", "").isdigit()


def _may_connect(text: str, rules: MediaRules) -> bool:
    """Return True for an address of the internet, and for one that the list itself names.

    Addresses in unusual forms, such as 2130706433 or 127.1, which the system understands too, are
    refused.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return is_public(address) or rules.names(str(address))
