"""TLS of the gRPC front."""

from __future__ import annotations

from typing import Any

import grpc

from servers.access import TlsFiles


def server_credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    """Return credentials that take each certificate that ``tls`` reads; gRPC requires TLS 1.2."""
    client_ca = tls.client_ca_bytes
    used = tls.pair

    def configuration() -> Any:
        return grpc.ssl_server_certificate_configuration([used], client_ca)

    def renewed() -> Any:
        """Called by gRPC, in a thread of its own, before every handshake. None: no change."""
        nonlocal used
        newest = tls.pair
        if newest is used:
            return None
        used = newest
        return configuration()

    return grpc.dynamic_ssl_server_credentials(configuration(), renewed, client_ca is not None)
