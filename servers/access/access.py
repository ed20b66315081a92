"""`Access`: the rules for requests over HTTP and gRPC."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network
from typing import Final

from calculators.kit.requests.client_identity import ClientIdentity
from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code
from servers.access.api_keys import ApiKeys, digest_of

#: Paths that need no key: health, for probes without keys. A gRPC method is a path too.
HEALTH_ROUTES: Final = (
    "/v2/health/live",
    "/v2/health/ready",
    "/livez",
    "/readyz",
    "/health",
    "/ping",
    "/inference.GRPCInferenceService/ServerLive",
    "/inference.GRPCInferenceService/ServerReady",
    "/grpc.health.v1.Health/*",
)

#: The page that shows the OpenAPI document, and its files. They are the same on every server; the
#: page asks for a key before it reads the document.
DOCS_ROUTES: Final = ("/docs", "/docs/viewer.js", "/docs/viewer.css")

#: The files of the page: the same on every server too. Everything that they show needs a key.
PAGE_ROUTES: Final = ("/", "/page/*")

_OPEN_ROUTES: Final = (*HEALTH_ROUTES, *DOCS_ROUTES, *PAGE_ROUTES)

_OPEN_PATHS: Final = frozenset(route for route in _OPEN_ROUTES if not route.endswith("*"))
_OPEN_GROUPS: Final = tuple(route for route in _OPEN_ROUTES if route.endswith("*"))

#: Headers, and gRPC's metadata, that carry keys; in lower case.
KEY_HEADERS: Final = ("authorization", "x-api-key")

_SEND: Final = "send `Authorization: Bearer KEY`, or `x-api-key: KEY`"


@dataclass(frozen=True, slots=True)
class Access:
    """The permissions of a server's clients.

    Attributes:
        keys: the valid keys; None: no key is needed.
        open_routes: paths as clients send them, and gRPC's ``/service/method``, that need no key,
            in addition to `HEALTH_ROUTES`, `DOCS_ROUTES` and `PAGE_ROUTES`. A path that ends in
            ``*`` matches all that begin so.
        allows_control: clients may load and unload graphs and models.
    """

    keys: ApiKeys | None = None
    open_routes: tuple[str, ...] = ()
    allows_control: bool = True

    def check(self, path: str, authorization: str | None, api_key: str | None) -> None:
        """Check that a client may request ``path``. The other arguments are its `KEY_HEADERS`.

        Raises:
            RequestError: UNAUTHENTICATED.
        """
        keys = self.keys
        if keys is None or self.is_open(path):
            return
        shown = [key for key in (_bearer(authorization), api_key) if key]
        if not shown:
            raise _unauthenticated(f"no API key: {_SEND}")
        if not any(keys.accepts(key) for key in shown):
            raise _unauthenticated("the API key is not valid")

    def client(
        self, peer: ClientIdentity, authorization: str | None, api_key: str | None
    ) -> ClientIdentity:
        """Return the client's identity: its key where keys are needed, else that of its address.

        ``peer``: see `identity_of_peer`.
        """
        keys = self.keys
        if keys is not None:
            for key in (_bearer(authorization), api_key):
                if key and (priority := keys.priority_of(key)):
                    name = f"key {digest_of(key).hex()}"
                    return ClientIdentity(name, peer.connection, priority)
        return peer

    def check_control(self) -> None:
        """Check that clients may load, unload and reload what is served.

        Raises:
            RequestError: PERMISSION_DENIED.
        """
        if not self.allows_control:
            raise RequestError(
                "what is loaded cannot be changed over the network here: the server has no API "
                "keys; set some, or allow it in the server's settings",
                code=Code.PERMISSION_DENIED,
            )

    def is_open(self, path: str) -> bool:
        """Return whether ``path`` needs no key."""
        if path in _OPEN_PATHS:
            return True
        return any(_matches(path, route) for route in (*_OPEN_GROUPS, *self.open_routes))


def identity_of_peer(address: str, port: str) -> ClientIdentity:
    """Return the identity of a client that has no key.

    ``address``: "" if unknown; ``port``: the peer's, which distinguishes its connections.
    """
    return ClientIdentity(_network(address), f"{address} {port}" if port else "")


def _matches(path: str, route: str) -> bool:
    return path.startswith(route[:-1]) if route.endswith("*") else path == route


def _network(address: str) -> str:
    """Return the address, or the /64 network of an IPv6 address, which one client usually owns."""
    if ":" not in address:
        return address
    try:
        return str(ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address


def _bearer(authorization: str | None) -> str:
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _unauthenticated(text: str) -> RequestError:
    return RequestError(text, code=Code.UNAUTHENTICATED, reason="invalid_api_key")
