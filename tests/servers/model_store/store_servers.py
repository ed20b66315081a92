"""Object stores on loopback: moto's server, which speaks S3's protocol, and two small doubles.

No package emulates Google's or Azure's service as the library speaks to it (Google's XML interface,
Azure's list of blobs), so `ReadOnlyStore` answers the two requests of each that are made here. A
`Link` stands before a server and breaks or hangs.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.patience import PATIENCE


class S3Server:
    """moto's server in a process of its own. ``endpoint``: ``127.0.0.1:port``."""

    def __init__(self, **environment: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.endpoint = f"127.0.0.1:{port}"
        self._process = subprocess.Popen(
            (sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            assert self._process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()

    def make_bucket(self, bucket: str) -> None:
        self._send("PUT", bucket)

    def put(self, bucket: str, path: str, content: bytes | Path, *, acl: str = "private") -> None:
        """Write a file, or all files of a directory."""
        if isinstance(content, bytes):
            self._send("PUT", f"{bucket}/{path}", content, acl)
            return
        for file in sorted(content.rglob("*")):
            if file.is_file():
                name = file.relative_to(content).as_posix()
                self._send("PUT", f"{bucket}/{path}/{name}", file.read_bytes())

    def delete(self, bucket: str, path: str) -> None:
        self._send("DELETE", f"{bucket}/{path}")

    def _send(self, method: str, path: str, content: bytes = b"", acl: str = "private") -> None:
        url = f"http://{self.endpoint}/{urllib.request.pathname2url(path)}"
        # moto wants a key, and checks no signature.
        credential = "Credential=a/20261130/us-east-1/s3/aws4_request"
        headers = {
            "Authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=0",
            "Content-Type": "application/octet-stream",
            "x-amz-acl": acl,
        }
        request = urllib.request.Request(url, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE):
            pass


class Link:
    """A TCP connection to a server that a test may break. ``endpoint``: ``127.0.0.1:port``.

    Attributes:
        is_hanging: connections are accepted, and nothing is passed on.
        is_cut: connections are closed at once.
        breaks: the number of connections that still break after ``break_after`` bytes of answers.
        connections: those accepted so far.
        seen: the bytes that clients have sent.
    """

    def __init__(self, target: str) -> None:
        self.is_hanging = self.is_cut = False
        self.breaks, self.break_after = 0, 0
        self.connections = 0
        self.seen = bytearray()
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.cut()
        self.is_hanging = False
        for thread in self._threads:
            thread.join()
        for each in self._open:
            each.close()

    def cut(self) -> None:
        """Break the connections that are open."""
        for each in [*self._open]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(client)
            if self.is_cut:
                client.shutdown(socket.SHUT_RDWR)
            elif not self.is_hanging:
                server = socket.create_connection(self._target)
                self._open.append(server)
                self._start(self._pass, client, server, False)
                self._start(self._pass, server, client, True)

    def _start(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _pass(self, one: socket.socket, other: socket.socket, is_answer: bool) -> None:
        left = self.break_after
        with suppress(OSError):
            while data := one.recv(1 << 16):
                while self.is_hanging:
                    time.sleep(0.05)
                if not is_answer:
                    self.seen += data
                elif self.breaks:
                    if left < len(data):
                        self.breaks -= 1
                        other.sendall(data[:left])
                        break
                    left -= len(data)
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class ReadOnlyStore:
    """Files under ``endpoint``/BUCKET, as Google's XML interface and Azure's blobs list them."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        #: The headers ``Authorization`` of all requests.
        self.authorizations: list[str | None] = []
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                store.authorizations.append(self.headers.get("Authorization"))
                parts = urlsplit(self.path)
                query = dict(parse_qsl(parts.query))
                _, _, path = unquote(parts.path).strip("/").partition("/")
                if "comp" in query:
                    self._answer(200, store.list_of_azure(query.get("prefix", "")))
                elif "list-type" in query:
                    self._answer(200, store.list_of_google(query.get("prefix", "")))
                elif path in store.files:
                    whole = store.files[path]
                    span = self.headers.get("x-ms-range") or self.headers.get("Range") or ""
                    first, _, last = span.removeprefix("bytes=").partition("-")
                    part = whole[int(first or 0) : int(last) + 1 if last else None]
                    self._answer(206, part, f"bytes {first}-{last}/{len(whole)}")
                else:
                    self._answer(404, b"")

            def do_HEAD(self) -> None:
                self.do_GET()

            def _answer(self, status: int, body: bytes, span: str = "") -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("ETag", '"0x1"')
                self.send_header("Last-Modified", _DATE)
                if span:
                    self.send_header("Content-Range", span)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def list_of_google(self, prefix: str) -> bytes:
        items = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>2026-11-30T00:00:00Z</LastModified>"
            f'<ETag>"0x1"</ETag><Size>{len(data)}</Size></Contents>'
            for name, data in self.files.items()
            if name.startswith(prefix)
        )
        return f"<ListBucketResult>{items}</ListBucketResult>".encode()

    def list_of_azure(self, prefix: str) -> bytes:
        items = "".join(
            f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{_DATE}</Last-Modified>"
            f"<Etag>0x1</Etag><Content-Length>{len(data)}</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type>"
            "<BlobType>BlockBlob</BlobType></Properties></Blob>"
            for name, data in self.files.items()
            if name.startswith(prefix)
        )
        return (
            f"<EnumerationResults><Blobs>{items}</Blobs><NextMarker/></EnumerationResults>".encode()
        )


_DATE = "Mon, 30 Nov 2026 00:00:00 GMT"


@contextmanager
def read_only_store(files: dict[str, bytes]) -> Iterator[ReadOnlyStore]:
    store = ReadOnlyStore(files)
    try:
        yield store
    finally:
        store.close()
