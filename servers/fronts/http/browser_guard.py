"""Protection from web pages that reach a local server through a browser.

A page of ``evil.example`` can let its name resolve to 127.0.0.1 (DNS rebinding) and then has the
same origin as the server. So a server that listens on loopback addresses only accepts host names
that are always local, and no pages except its own and the ones that the operator lists.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping

from servers.fronts.http.errors import HttpError
from servers.fronts.http.settings import HttpSettings

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII)
_LOCAL_SUFFIXES = (".localhost", ".local", ".internal")
_ALL = "*"
_TOKENS = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z, -]{0,1000}", re.ASCII)
# Headers that clients of these APIs send.
_USUAL_HEADERS = (
    "authorization, content-type, x-request-id, x-request-timeout, x-api-key, anthropic-version,"
    " anthropic-beta, x-goog-api-key, x-goog-api-client, inference-header-content-length,"
    " traceparent"
)
_EXPOSED_HEADERS = "x-request-id, retry-after, warning"
_PREFLIGHT_SECONDS = "600"
#: Browsers' words for requests of the server's own page, and of people who type an address. Other
#: servers of the same machine are ``same-site``.
_OWN_SITE = ("same-origin", "none")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address to bind."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class BrowserGuard:
    """Checks ``Host`` and ``Origin``; makes the CORS headers of answers (by default none)."""

    def __init__(self, settings: HttpSettings) -> None:
        # Only there does rebinding gain anything: a server on a network is reached by its own name
        # as well.
        self._is_local = all(is_loopback(host) for host in settings.hosts)
        self._origins = frozenset(origin.lower() for origin in settings.allowed_origins)
        self._takes_all = _ALL in self._origins
        self._methods = settings.allowed_methods
        self._headers = settings.allowed_headers
        self._allows_credentials = settings.allow_credentials and not self._takes_all
        self._names = frozenset(
            {"localhost", socket.gethostname().lower(), *map(str.lower, settings.allowed_hosts)}
        )
        self._known_hosts: set[str] = set()

    def check(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Check the headers of a request, and return those that its answer needs for CORS.

        Raises:
            HttpError: 400, the ``Host`` is invalid; 403, the ``Host`` or ``Origin`` is not allowed.
        """
        host = headers.get("Host")
        if host is not None and host not in self._known_hosts:
            self._check_host(host.lower())
            # Bounded: anybody can send other names to a server that does not listen on loopback.
            if len(self._known_hosts) < 100:
                self._known_hosts.add(host)
        origin = headers.get("Origin")
        if origin is None:
            return {}
        if self._is_local:
            self._check_origin(origin.lower(), (host or "").lower())
        return self._cors_headers(origin)

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Check a request that no page of another site may make, wherever the server listens.

        Raises:
            HttpError: 403, such a page makes it, as a link or picture perhaps.
        """
        origin = headers.get("Origin")
        if origin is not None:
            self._check_origin(origin.lower(), headers.get("Host", "").lower())
        elif headers.get("Sec-Fetch-Site", "none") not in _OWN_SITE:
            # An image, a script or a link of another page, which sends no Origin.
            raise HttpError(403, "only the server's own page may request this from a browser")

    def _cors_headers(self, origin: str) -> dict[str, str]:
        """Return the headers of an answer to a listed page; {} for every other client."""
        if not (self._takes_all or origin.lower() in self._origins):
            return {}
        allowed = {
            "Access-Control-Allow-Origin": _ALL if self._takes_all else origin,
            "Access-Control-Expose-Headers": _EXPOSED_HEADERS,
        }
        if not self._takes_all:
            # A cache between would otherwise give one page the answer that names another.
            allowed["Vary"] = "Origin"
        if self._allows_credentials:
            allowed["Access-Control-Allow-Credentials"] = "true"
        return allowed

    def preflight_headers(
        self, headers: Mapping[str, str], methods: tuple[str, ...]
    ) -> dict[str, str]:
        """Return the headers that answer a preflight request for a path with these ``methods``."""
        origin = headers.get("Origin")
        if origin is None or not self._cors_headers(origin):
            return {}
        allowed = methods
        if self._methods and _ALL not in self._methods:
            chosen = {method.upper() for method in self._methods}
            allowed = tuple(method for method in methods if method in chosen)
        named = ", ".join(self._headers) or _USUAL_HEADERS
        if _ALL in self._headers:
            # By name: for browsers a star does not include the header Authorization.
            asked = headers.get("Access-Control-Request-Headers", "")
            named = asked if _TOKENS.fullmatch(asked) else _USUAL_HEADERS
        return {
            "Access-Control-Allow-Methods": ", ".join(allowed),
            "Access-Control-Allow-Headers": named,
            "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
        }

    def _check_host(self, host: str) -> None:
        match = _HOST.fullmatch(host)
        if match is None:
            raise HttpError(400, "the Host header is not a host")
        if self._is_local and not self._is_local_name(match[1]):
            raise HttpError(
                403,
                "the Host header names no local host; ask at 127.0.0.1, or allow the name in the "
                "server's settings",
            )

    def _is_local_name(self, name: str) -> bool:
        name = name.rstrip(".")
        if name in self._names or name.endswith(_LOCAL_SUFFIXES):
            return True
        try:
            address = ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        # An address cannot be rebound: only names are resolved. But 0.0.0.0 reaches this machine
        # too, and browsers guard only 127.0.0.1 from pages of the internet.
        mapped = getattr(address, "ipv4_mapped", None)
        return not (address.is_unspecified or (mapped is not None and mapped.is_unspecified))

    def _check_origin(self, origin: str, host: str) -> None:
        if self._takes_all or origin in self._origins:
            return
        _, separator, authority = origin.partition("://")
        if not separator or authority != host:
            raise HttpError(
                403, "this web page may not call; allow its origin in the server's settings"
            )
