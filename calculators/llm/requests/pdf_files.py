"""`with_pdf_texts`: a request's PDF files become files of text, before the request is read.

The readers of the APIs know files of text only (`calculators.llm.requests.documents`).
"""

from __future__ import annotations

import base64
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from calculators.requests.http_payload import HttpPayload

#: The members in which lists of messages, items, parts and blocks stand.
_LISTS: Final = ("messages", "input", "content", "output")
#: Lists within lists: a message's, a result's, a document's.
_DEEPEST: Final = 5
_PDF_URL: Final = re.compile(r"data:application/pdf(?:;[^;,]*)*;base64,", re.IGNORECASE)
#: How each PDF begins in Base64.
_PDF_BEGINS: Final = "JVBERi"

_Steps = tuple[str | int, ...]


class _Found(NamedTuple):
    """A PDF file: the steps to the object with it, the member of that object, and the file."""

    steps: _Steps
    member: str
    content: str


async def with_pdf_texts(payload: HttpPayload) -> HttpPayload:
    """Return a request with texts in place of its PDF files.

    Raises:
        RequestError: a file cannot be read.
    """
    body = payload.parsed_json
    if not isinstance(body, dict):
        return payload
    found = list(_pdf_files(body, (), 0))
    if not found:
        return payload
    from calculators.documents.pdf_reader import PdfFile, read_pdfs

    files = [PdfFile(each.content, _path((*each.steps, each.member))) for each in found]
    texts = await read_pdfs(files)
    for each, text in zip(found, texts, strict=True):
        body = _replaced(body, each.steps, each.member, text)
    return dataclasses.replace(payload, parsed_json=body)


def _pdf_files(holder: Mapping[str, Any], steps: _Steps, depth: int) -> Iterator[_Found]:
    kind = holder.get("type")
    if kind == "document":
        source = holder.get("source")
        if isinstance(source, dict):
            yield from _of_source(source, (*steps, "source"))
            yield from _pdf_files(source, (*steps, "source"), depth)
    elif kind == "input_file":
        yield from _of_file(holder, steps)
    elif kind == "file" and isinstance(holder.get("file"), dict):
        yield from _of_file(holder["file"], (*steps, "file"))
    for name in _LISTS:
        inner = holder.get(name)
        if isinstance(inner, list) and depth < _DEEPEST:
            for i, each in enumerate(inner):
                if isinstance(each, dict):
                    yield from _pdf_files(each, (*steps, name, i), depth + 1)


def _of_source(source: Mapping[str, Any], steps: _Steps) -> Iterator[_Found]:
    data = source.get("data")
    if source.get("type") == "base64" and isinstance(data, str):
        kind = source.get("media_type")
        if kind == "application/pdf" or data.startswith(_PDF_BEGINS):
            yield _Found(steps, "data", data)


def _of_file(file: Mapping[str, Any], steps: _Steps) -> Iterator[_Found]:
    data = file.get("file_data")
    if not isinstance(data, str):
        return
    url = _PDF_URL.match(data)
    if url is not None:
        yield _Found(steps, "file_data", data[url.end() :])
    elif data.startswith(_PDF_BEGINS):
        yield _Found(steps, "file_data", data)


def _path(steps: _Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)[1:]


def _replaced(value: Any, steps: _Steps, member: str, text: str) -> Any:
    """Return a copy of a body with a text in place of a file; what is beside it is the same."""
    if steps:
        copy = value.copy()
        copy[steps[0]] = _replaced(value[steps[0]], steps[1:], member, text)
        return copy
    if member == "data":
        return {"type": "text", "media_type": "text/plain", "data": text}
    written = base64.b64encode(text.encode()).decode()
    return {**value, member: f"data:text/plain;base64,{written}"}
