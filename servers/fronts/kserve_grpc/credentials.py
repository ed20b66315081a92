"""TLS of the gRPC front."""

from __future__ import annotations

from typing import Any

import grpc

from servers.access import TlsFiles


def server_credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    """Credentials that follow the files; gRPC itself speaks TLS from 1.2 on."""
    client_ca = tls.client_ca_bytes()
    used = tls.pair

    def configuration() -> Any:
        return grpc.ssl_server_certificate_configuration([used], client_ca)

    def renewed() -> Any:
        """What gRPC asks, in a thread of its own, before every handshake; None: no change."""
        nonlocal used
        tls.renew()
        if tls.pair is used:
            return None
        used = tls.pair
        return configuration()

    return grpc.dynamic_ssl_server_credentials(configuration(), renewed, client_ca is not None)
