"""Settings of the HTTP front: its options, and limits that have no flag."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from calculators.kit.requests.json_depth import MOST_DEPTH
from graph_runtime import FamilySettings
from servers.access import Access, TlsFiles
from servers.options.server_options import HttpOptions
from servers.page.settings import PageSettings

if TYPE_CHECKING:
    from servers.batches.store import BatchStore
    from servers.contract.data_plane import ModelChanges

#: The header of a request of a batch, which only the worker of batches sends.
BATCH_HEADER: Final = "x-graphrt-batch"


@dataclass(frozen=True, slots=True)
class HttpSettings(HttpOptions):
    """The addresses to listen on, and the limits. Sizes are bytes, times are seconds.

    `HttpOptions` documents the fields that have flags.

    Attributes:
        port: 0 takes a free one (the same for every host).
        shares_port: other processes of this server listen on the same port.
        max_body_bytes: 413 above. A body is parsed in one go, which blocks the loop 4-5 ms per MiB.
        max_tensor_body_bytes: the same for a body with tensors (``/v2/models/.../infer``). Most of
            it is binary data, which is not parsed; its JSON has the limits of all JSON. 64 MiB are
            100 images of 3 x 224 x 224 floats.
        max_form_parts: fields and files of one form, 400 above.
        max_form_text_bytes: its fields together, without its files; 413 above.
        max_part_headers: headers of one field or file, 400 above.
        max_part_header_bytes: one such header, 400 above.
        max_json_depth: nesting of arrays and objects, 400 above.
        max_json_elements: values in one body, 400 above.
        max_tensor_json_elements: the same under ``/v2/``, where tensors may be JSON: an image of
            3 x 224 x 224 has 150,528. Reading a thousand floats blocks the loop 0.35 ms.
        max_message_bytes: one message of a WebSocket's client; a longer one closes it with 1009.
        max_sockets: WebSockets at a time, 503 above.
        socket_idle_seconds: a WebSocket whose client sends no message for so long is closed.
        header_seconds: from a connection's start, or a request's first byte, to its last header.
        body_idle_seconds: between two pieces of a body.
        min_body_rate: the average rate of a body in bytes per second, after its first
            ``body_idle_seconds``. A slower one would occupy its connection for days.
        keep_alive_seconds: a connection without a request is closed after this time.
        stall_seconds: a client that reads nothing of its answer for so long is disconnected.
        linger_seconds: a closed connection whose bytes are all sent waits for so long until its
            client closes TLS as well. One that keeps the connection for later does not look. Also
            how long the rest of a WebSocket's message that is too long is read and dropped.
        ping_seconds: a stream silent for so long gets a comment.
        write_buffer_bytes: unsent bytes above which a client is not ``writable``.
        max_unsent_bytes: a client is disconnected above this; only a graph that does not wait for
            ``writable`` reaches it.
        access: API keys, and the routes that need none.
        tls: certificate and key; None: plain HTTP.
        page: whether the page is served, and how much it may show and do.
        families: the settings of each family of calculators.
        batch_store: has the files of the clients whose batches the requests are of; the header
            `BATCH_HEADER` has the number of the batch. None: the requests are of no batches.
        ollama_port: the port of ``ollama``; 0 takes a free one.
        model_changes: downloads and removes models for clients; None: they may not.
    """

    port: int = 8000
    shares_port: bool = False
    max_body_bytes: int = 8 * 1024 * 1024
    max_tensor_body_bytes: int = 64 * 1024 * 1024
    max_form_parts: int = 128
    max_form_text_bytes: int = 1024 * 1024
    max_part_headers: int = 8
    max_part_header_bytes: int = 4224
    max_json_depth: int = MOST_DEPTH
    max_json_elements: int = 100_000
    max_tensor_json_elements: int = 200_000
    max_message_bytes: int = 2 * 1024 * 1024
    max_sockets: int = 256
    socket_idle_seconds: float = 3600.0
    header_seconds: float = 10.0
    body_idle_seconds: float = 30.0
    min_body_rate: int = 1024
    keep_alive_seconds: float = 75.0
    stall_seconds: float = 30.0
    linger_seconds: float = 5.0
    ping_seconds: float = 15.0
    write_buffer_bytes: int = 64 * 1024
    max_unsent_bytes: int = 4 * 1024 * 1024
    access: Access = field(default_factory=Access)
    tls: TlsFiles | None = None
    page: PageSettings = field(default_factory=PageSettings)
    families: FamilySettings = field(default_factory=FamilySettings)
    batch_store: BatchStore | None = None
    ollama_port: int = 11434
    model_changes: ModelChanges | None = None
