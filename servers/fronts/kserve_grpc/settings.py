"""What an operator may set of the gRPC front. Imports no gRPC, which takes time."""

from __future__ import annotations

from dataclasses import dataclass, field

from servers.access import Access, TlsFiles
from servers.options.front_options import GrpcOptions


@dataclass(frozen=True, slots=True)
class GrpcSettings(GrpcOptions):
    """Where to listen, and the limits. Sizes are bytes, times are seconds.

    What an operator sets has its words in `GrpcOptions`.

    Attributes:
        port: 0 takes a free one (the same for every host).
        max_message_bytes: RESOURCE_EXHAUSTED above. Raw tensors are not parsed, so this may be
            more than what HTTP takes.
        max_parsed_bytes: of a request without its raw tensors; INVALID_ARGUMENT above.
        max_calls: in hand at the same time, over all connections; RESOURCE_EXHAUSTED above.
        write_buffer_bytes: unsent answers of a stream above which its client is not ``writable``,
            and none of its requests is taken.
        max_unsent_bytes: a stream is cut off above this; only a run that does not wait for
            ``writable`` gets there.
        keep_alive_seconds: a connection silent for so long is pinged, and closed if nothing comes
            back: the runs of clients that are gone without a word end.
        handshake_seconds: from a connection's start to the end of its handshakes, those of TLS and
            of HTTP/2; who says nothing is closed then. One that has spoken may be silent.
        watch_seconds: how often ``Health.Watch`` looks whether something has changed.
        stall_seconds: a stream is ended when its client takes nothing of its answers for so long.
            gRPC tells that it takes some only when it has read half of a window, up to megabytes.
        access: keys, and what is open without one.
        tls: None: no TLS.
    """

    port: int = 0
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
