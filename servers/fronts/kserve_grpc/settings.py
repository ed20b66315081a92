"""Settings of the gRPC front. Imports no gRPC, which takes time to load."""

from __future__ import annotations

from dataclasses import dataclass, field

from servers.access import Access, TlsFiles
from servers.options.server_options import GrpcOptions


@dataclass(frozen=True, slots=True)
class GrpcSettings(GrpcOptions):
    """The addresses to listen on, and the limits. Sizes are bytes, times are seconds.

    `GrpcOptions` documents the fields that have flags.

    Attributes:
        port: 0 takes a free one (the same for every host).
        shares_port: other processes of this server listen on the same port.
        max_message_bytes: RESOURCE_EXHAUSTED above. Raw tensors are not parsed, so this may be
            more than the limit of HTTP.
        max_parsed_bytes: size of a request without its raw tensors; INVALID_ARGUMENT above.
        max_calls: concurrent calls over all connections; RESOURCE_EXHAUSTED above.
        write_buffer_bytes: unsent answers of a stream above which its client is not ``writable``,
            and its requests are not read.
        max_unsent_bytes: a stream is ended above this; only a run that does not wait for
            ``writable`` reaches it.
        keep_alive_seconds: a connection that is silent for so long is pinged, and closed if no
            answer comes: so the runs of clients that vanished end.
        handshake_seconds: time for the handshakes of TLS and HTTP/2. A connection that sends
            nothing is closed then; it may be silent afterwards.
        watch_seconds: interval at which ``Health.Watch`` looks for changes.
        stall_seconds: a stream is ended when its client reads nothing of its answers for so long.
            gRPC reports progress only when a client has read half of a window, up to megabytes.
        access: API keys, and the methods that need none.
        tls: certificate and key; None: no TLS.
    """

    port: int = 0
    shares_port: bool = False
    max_message_bytes: int = 64 * 1024 * 1024
    max_parsed_bytes: int = 8 * 1024 * 1024
    max_calls: int = 4096
    write_buffer_bytes: int = 64 * 1024
    max_unsent_bytes: int = 64 * 1024 * 1024
    keep_alive_seconds: float = 60.0
    handshake_seconds: float = 10.0
    watch_seconds: float = 1.0
    stall_seconds: float = 120.0
    access: Access = field(default_factory=Access)
    tls: TlsFiles | None = None
