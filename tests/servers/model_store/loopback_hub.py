"""A hub on loopback that speaks Hugging Face's protocol and fails on request.

From the documentation of the Hub API: ``/api/models/REPO/revision/REV`` lists files, and
``/REPO/resolve/REV/FILE`` gives their bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Faults:
    """The faults of a hub.

    Attributes:
        status: of every answer.
        headers: of such answers.
        cut_after: bytes of a file in one answer, after which the connection breaks.
        stuck_at: the byte of a file that never comes.
        stalls_at: the byte of a file at which answers stand still, with the connection open.
        is_silent: connections are accepted, and nothing is ever answered.
        promised: sizes in the listing that are not true.
        content: sent instead of what the listing's checksums are of.
        has_ranges: False: every answer begins at the first byte.
        redirects: files come from another path, as from a network for content.
    """

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    stuck_at: int | None = None
    stalls_at: int | None = None
    is_silent: bool = False
    promised: dict[str, int] = field(default_factory=dict)
    content: dict[str, bytes] = field(default_factory=dict)
    has_ranges: bool = True
    redirects: bool = False


class LoopbackHub:
    """Repositories by name, each with contents by file's name."""

    def __init__(self, repositories: dict[str, dict[str, bytes]]) -> None:
        self.repositories = repositories
        self.faults = Faults()
        #: Path and Range header of all requests for files.
        self.reads: list[tuple[str, str | None]] = []
        self.authorizations: list[str | None] = []
        self._ends = threading.Event()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                hub._answer(self, with_body=False)

            def do_GET(self) -> None:
                hub._answer(self, with_body=True)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> LoopbackHub:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._server.shutdown()
        self._server.server_close()

    # Answers --------------------------------------------------------------------------------------

    def _answer(self, request: BaseHTTPRequestHandler, *, with_body: bool) -> None:
        self.authorizations.append(request.headers.get("Authorization"))
        path = unquote(urlsplit(request.path).path)
        if self.faults.is_silent:
            self._stand_still(request)
            return
        if self.faults.status is not None:
            self._send(request, self.faults.status, b"{}", self.faults.headers)
            return
        listing = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path)
        if listing is not None:
            self._list(request, listing[1], listing[2])
            return
        file = re.fullmatch(r"(/elsewhere)?/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if file is None:
            self._send(request, 404, b"{}")
        elif self.faults.redirects and file[1] is None:
            self._send(request, 302, b"", {"Location": f"/elsewhere{request.path}"})
        else:
            self.reads.append((file[4], request.headers.get("Range")))
            self._send_file(request, file[2], file[4], with_body=with_body)

    def _list(self, request: BaseHTTPRequestHandler, name: str, revision: str | None) -> None:
        files = self.repositories.get(name)
        if files is None:
            self._send(request, 404, b"{}", {"X-Error-Code": "RepoNotFound"})
            return
        if revision not in (None, "main", COMMIT):
            self._send(request, 404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            return
        siblings = [self._sibling(file, content) for file, content in files.items()]
        body = {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings}
        self._send(request, 200, json.dumps(body).encode())

    def _sibling(self, file: str, content: bytes) -> dict[str, Any]:
        size = self.faults.promised.get(file, len(content))
        listed: dict[str, Any] = {"rfilename": file, "size": size}
        if len(content) > 1000:
            digest = hashlib.sha256(content).hexdigest()
            listed["lfs"] = {"sha256": digest, "size": size, "pointerSize": 130}
            listed["blobId"] = "0" * 40
        else:
            git = b"blob %d\0" % len(content) + content
            listed["blobId"] = hashlib.sha1(git, usedforsecurity=False).hexdigest()
        return listed

    def _send_file(
        self, request: BaseHTTPRequestHandler, name: str, file: str, *, with_body: bool
    ) -> None:
        content = self.repositories.get(name, {}).get(file)
        if content is None:
            self._send(request, 404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        content = self.faults.content.get(file, content)
        start, status = 0, 200
        headers = {"ETag": '"etag"', "X-Repo-Commit": COMMIT}
        asked = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range") or "")
        if asked is not None and self.faults.has_ranges:
            start, status = int(asked[1]), 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        end = len(content)
        if self.faults.cut_after is not None:
            end = min(end, start + self.faults.cut_after)
        if self.faults.stuck_at is not None:
            end = min(end, self.faults.stuck_at)
        if self.faults.stalls_at is not None:
            end = min(end, self.faults.stalls_at)
        headers["Content-Length"] = str(len(content) - start)
        self._send(request, status, content[start:end] if with_body else b"", headers)
        if end < len(content):
            request.close_connection = True
            if self.faults.stalls_at is not None:
                self._stand_still(request)

    def _stand_still(self, request: BaseHTTPRequestHandler) -> None:
        """Keep a connection open without a word until the hub ends."""
        request.wfile.flush()
        self._ends.wait()
        request.close_connection = True

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
    ) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)
