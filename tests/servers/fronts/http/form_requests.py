"""Forms as bytes, right and wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tests.servers.fronts.http.http_client import request_bytes

BOUNDARY = "----of-the-tests"
PATH = "/v3/listen"


def part(name: str, content: bytes | str, *, file: str | None = None, **headers: str) -> bytes:
    """One part of a form; ``headers`` have underscores for dashes."""
    filename = "" if file is None else f'; filename="{file}"'
    lines = [f'Content-Disposition: form-data; name="{name}"{filename}']
    lines += [f"{key.replace('_', '-')}: {value}" for key, value in headers.items()]
    data = content.encode() if isinstance(content, str) else content
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def form(*parts: bytes, boundary: str = BOUNDARY) -> bytes:
    delimiter = b"--" + boundary.encode()
    return b"".join(delimiter + b"\r\n" + each + b"\r\n" for each in parts) + delimiter + b"--\r\n"


def form_request(
    *parts: bytes, path: str = PATH, headers: Mapping[str, str] | None = None
) -> bytes:
    return posted(form(*parts), path=path, headers=headers)


def posted(
    body: bytes,
    *,
    content_type: str = f"multipart/form-data; boundary={BOUNDARY}",
    path: str = PATH,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    return request_bytes("POST", path, body, {"Content-Type": content_type, **(headers or {})})
