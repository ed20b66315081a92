"""PDF files in the requests of all APIs."""

from __future__ import annotations

import asyncio
import base64
import copy
from typing import Any

import pytest

pytest.importorskip("pypdf")

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.llm.endpoints import endpoint_of
from calculators.llm.pdf_files import with_documents
from calculators.llm.requests.completions_request import ChatRequest
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from tests.calculators.llm.made_pdfs import pdf

DATA = base64.b64encode(pdf("Fourteen geese")).decode()
URL = f"data:application/pdf;base64,{DATA}"
BROKEN = base64.b64encode(b"%PDF-1.4 nothing").decode()
ASK = {"type": "text", "text": "How many?"}


def document(data: str = DATA) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    return {"type": "document", "title": "Geese", "source": source}


def result(data: str = DATA) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": [document(data)]}]},
    ]  # fmt: skip


def asked(uri: str, **members: Any) -> tuple[HttpPayload, str]:
    """Return a request with its texts, and all that the model sees of its messages."""
    body = {"model": "m", **members}
    if "messages" in members:
        body["max_tokens"] = 9
    before = copy.deepcopy(body)
    payload = asyncio.run(with_documents(HttpPayload(uri, {}, parsed_json=body)))
    assert body == before  # others may have the request, too
    request = endpoint_of(uri).parse(payload.parsed_json, RequestLimits(), ModelDefaults())
    assert isinstance(request, ChatRequest)
    return payload, str(request.messages)


@pytest.mark.parametrize(
    ("uri", "members"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": [
            {"type": "file", "file": {"file_data": URL, "filename": "Geese"}}, ASK]}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": [
            {"type": "file", "file": {"file_data": DATA, "filename": "Geese"}}, ASK]}]}),
        ("/v1/responses", {"input": [{"role": "user", "content": [
            {"type": "input_file", "file_data": URL, "filename": "Geese"}]}]}),
        ("/v1/messages", {"messages": [{"role": "user", "content": [document(), ASK]}]}),
        ("/v1/messages", {"messages": result()}),
    ],
)  # fmt: skip
def test_the_model_sees_the_text_of_a_file(uri: str, members: dict[str, Any]) -> None:
    _, seen = asked(uri, **members)
    assert '<document name="Geese">\\nFourteen geese\\n</document>' in seen
    assert "JVBER" not in seen


@pytest.mark.parametrize(
    ("uri", "members", "path"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": [
            {"type": "file", "file": {"file_data": BROKEN}}]}]},
         "messages[0].content[0].file.file_data"),
        ("/v1/responses", {"input": [{"role": "user", "content": [
            {"type": "input_file", "file_data": BROKEN}]}]}, "input[0].content[0].file_data"),
        ("/v1/messages", {"messages": result(BROKEN)},
         "messages[2].content[0].content[0].source.data"),
    ],
)  # fmt: skip
def test_a_broken_file_is_refused_with_its_place(
    uri: str, members: dict[str, Any], path: str
) -> None:
    with pytest.raises(RequestError, match="the PDF is broken") as raised:
        asked(uri, **members)
    assert raised.value.param == path


def test_requests_without_such_files_stay_as_they_are() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": [ASK, 7, {"type": "file"}]}]}
    payload = HttpPayload("/v1/chat/completions", {}, parsed_json=body)
    assert asyncio.run(with_documents(payload)) is payload


HTML = base64.b64encode(b"<!doctype html><p>Fourteen <i>geese</i></p>").decode()
TOO = base64.b64encode(b"<p>Fourteen <i>geese</i></p>").decode()
CASES = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [
        {"type": "file", "file": {"file_data": HTML}}]}]}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [
        {"type": "file", "file": {"file_data": TOO, "filename": "x.HTML"}}]}]}),
    ("/v1/responses", {"input": [{"role": "user", "content": [
        {"type": "input_file", "file_data": f"data:text/html;charset=utf-8;base64,{TOO}"}]}]}),
    ("/v1/messages", {"messages": [{"role": "user", "content": [{"type": "document", "source": {
        "type": "base64", "media_type": "text/html", "data": TOO}}]}]}),
    ("/v1/models/m:generateContent", {"contents": [{"parts": [
        {"inlineData": {"mimeType": "text/html", "data": TOO}}]}]}),
    ("/v1/models/m:generateContent", {"contents": [{"parts": [
        {"inline_data": {"mime_type": "application/pdf", "data": DATA}}]}]}),
]  # fmt: skip


@pytest.mark.parametrize(("uri", "members"), CASES)
def test_the_model_sees_the_text_of_a_page(uri: str, members: dict[str, Any]) -> None:
    _, seen = asked(uri, **members)
    assert "Fourteen geese" in seen
    assert "<p>" not in seen
    assert "JVBER" not in seen
