"""What an operator may set of the HTTP front."""

from __future__ import annotations

from dataclasses import dataclass, field

from servers.access import Access, TlsFiles


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where to listen, and the limits. Sizes are bytes, times are seconds.

    Attributes:
        hosts: addresses to bind; a name or an IP each.
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
        allowed_hosts: names a ``Host`` header may have when every address bound is a loopback
            one, besides those that are always local.
        allowed_origins: web pages that may call, ``https://console.example``: the CORS list; ``*``
            is every page, without credentials.
        allowed_methods, allowed_headers: what they may use; empty: what a path takes, and the
            headers that clients of these APIs send. ``*`` is everything.
        allow_credentials: may they send what a browser keeps, such as cookies?
        access: keys, and what is open without one.
        tls: None: no TLS.
        request_seconds: a request may take so long, whatever it asks for; 0 is for ever.
        max_connections: open at the same time; 503 above.
    """

    hosts: tuple[str, ...] = ("127.0.0.1",)
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
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    allowed_methods: tuple[str, ...] = ()
    allowed_headers: tuple[str, ...] = ()
    allow_credentials: bool = False
    access: Access = field(default_factory=Access)
    tls: TlsFiles | None = None
    request_seconds: float = 0.0
    max_connections: int = 4096

    @property
    def watch_seconds(self) -> float:
        """How often connections are looked at: often enough for the shortest of the times."""
        return min(1.0, min(self.header_seconds, self.stall_seconds, self.ping_seconds) / 4)
