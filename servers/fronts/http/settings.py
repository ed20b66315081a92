"""Settings of the HTTP front: its options, and limits that have no flag."""

from __future__ import annotations

from dataclasses import dataclass, field

from servers.access import Access, TlsFiles
from servers.options.front_options import HttpOptions


@dataclass(frozen=True, slots=True)
class HttpSettings(HttpOptions):
    """Where to listen, and the limits. Sizes are bytes, times are seconds.

    What an operator sets has its words in `HttpOptions`.

    Attributes:
        port: 0 takes a free one (the same for every host).
        max_body_bytes: 413 above. A body is parsed in one go, which holds the loop 4-5 ms per MiB.
        max_tensor_body_bytes: the same of a body with tensors (``/v2/models/.../infer``), most of
            which is binary data that nobody parses; its JSON has the limits of all JSON. It bounds
            what one connection can make the server hold: 64 MiB are 100 images of 3 x 224 x 224
            floats.
        max_bodies_bytes: of all bodies in hand together, but for those up to 64 KiB; one waits for
            room for 20 s, and is 503 then. Parsed it takes up to four times its size.
        max_json_depth: nesting of arrays and objects, 400 above.
        max_json_elements: values in one body, 400 above.
        max_tensor_json_elements: the same under ``/v2/``, where tensors may be JSON: an image of
            3 x 224 x 224 has 150,528. Reading a thousand floats holds the loop 0.35 ms.
        header_seconds: from a connection's start, or a request's first byte, to its last header.
        body_idle_seconds: between two pieces of a body.
        min_body_rate: bytes a second that a body brings on average, but for its first
            ``body_idle_seconds``; one that trickles would hold its connection for days.
        keep_alive_seconds: how long a connection without a request stays.
        stall_seconds: a client that takes nothing of its answer for so long is cut off.
        ping_seconds: a stream silent for so long gets a comment.
        write_buffer_bytes: unsent bytes above which a client is not ``writable``.
        max_unsent_bytes: a client is cut off above this; only a graph that does not wait for
            ``writable`` gets there.
        access: keys, and what is open without one.
        tls: None: no TLS.
    """

    port: int = 8000
    max_body_bytes: int = 8 * 1024 * 1024
    max_tensor_body_bytes: int = 64 * 1024 * 1024
    max_bodies_bytes: int = 128 * 1024 * 1024
    max_json_depth: int = 100
    max_json_elements: int = 100_000
    max_tensor_json_elements: int = 200_000
    header_seconds: float = 10.0
    body_idle_seconds: float = 30.0
    min_body_rate: int = 1024
    keep_alive_seconds: float = 75.0
    stall_seconds: float = 30.0
    ping_seconds: float = 15.0
    write_buffer_bytes: int = 64 * 1024
    max_unsent_bytes: int = 4 * 1024 * 1024
    access: Access = field(default_factory=Access)
    tls: TlsFiles | None = None

    @property
    def watch_seconds(self) -> float:
        """How often connections are looked at: often enough for the shortest of the times."""
        return min(1.0, min(self.header_seconds, self.stall_seconds, self.ping_seconds) / 4)
