"""A collector of OpenTelemetry's protocol that keeps the spans that it receives."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class CollectedSpan:
    """A span; ``parent`` is "" if it has none; times are in nanoseconds."""

    name: str
    trace_id: str
    span_id: str
    parent: str
    kind: int
    begin: int
    end: int
    is_error: bool
    attributes: dict[str, Any]
    service: str


class Collector:
    """The received spans, by all paths that were used."""

    def __init__(self) -> None:
        self.spans: list[CollectedSpan] = []
        self.paths: set[str] = set()
        self.url = ""

    def take(self, path: str, body: bytes) -> None:
        self.paths.add(path)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _attributes(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [
                    CollectedSpan(
                        name=span.name,
                        trace_id=span.trace_id.hex(),
                        span_id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        kind=span.kind,
                        begin=span.start_time_unix_nano,
                        end=span.end_time_unix_nano,
                        is_error=span.status.code == 2,
                        attributes=_attributes(span.attributes),
                        service=service,
                    )
                    for span in scope.spans
                ]

    def only(self, name: str) -> CollectedSpan:
        """Return the only span of this name."""
        found = [span for span in self.spans if span.name == name]
        assert len(found) == 1, [span.name for span in self.spans]
        return found[0]

    def tree(self) -> dict[str, str]:
        """Return the names of each span and its parent; "" if the parent was not collected."""
        names = {span.span_id: span.name for span in self.spans}
        return {span.name: names.get(span.parent, "") for span in self.spans}


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector over HTTP on a free port."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def collecting_calls() -> Iterator[Collector]:
    """Run a collector over gRPC on a free port."""
    collector = Collector()

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            def take(request: bytes, context: Any) -> bytes:
                collector.take(details.method, request)
                return b""

            return grpc.unary_unary_rpc_method_handler(take)

    server = grpc.server(ThreadPoolExecutor(1), handlers=[Handler()])
    collector.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()
