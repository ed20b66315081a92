"""What an operator may set of the gRPC front. Imports no gRPC, which takes time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """Where to listen, and the limits. Sizes are bytes, times are seconds.

    Attributes:
        hosts: addresses to bind; a name or an IP each.
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
        watch_seconds: how often ``Health.Watch`` looks whether something has changed.
        channel_arguments: gRPC's own, by name; they go before what follows from the rest.
    """

    hosts: tuple[str, ...] = ("127.0.0.1",)
    port: int = 0
    max_message_bytes: int = 64 * 1024 * 1024
    max_parsed_bytes: int = 8 * 1024 * 1024
    max_calls: int = 4096
    write_buffer_bytes: int = 64 * 1024
    max_unsent_bytes: int = 64 * 1024 * 1024
    keep_alive_seconds: float = 60.0
    watch_seconds: float = 1.0
    channel_arguments: Mapping[str, int | str] = field(default_factory=dict)
