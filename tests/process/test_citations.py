"""Citations in answers of ``/messages``, as Anthropic's client reads them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.calculators.llm.made_pdfs import pdf
from tests.process.server_process import ServerProcess
from tests.servers.fronts.openapi.described import Described
from tests.support.late_import import LateImport

if TYPE_CHECKING:
    import anthropic
else:
    anthropic = LateImport("anthropic", reason="the extra `clients` is not installed")

pytest.importorskip("pypdf")

#: Answers with the last text of the conversation.
CALCULATORS: Final = """\
from calculators.language import GenerationRequest, answers


@answers
async def echo(request: GenerationRequest):
    content = request.messages[-1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    for piece in text.split(" "):
        yield piece + " "
"""
GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:in"
output_stream: "HTTP_RESPONSE_PAYLOAD:out"
node {
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:in"
  output_stream: "REQUEST:request"
}
node { calculator: "echo" input_stream: "REQUEST:request" output_stream: "DELTAS:deltas" }
node {
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:deltas"
  output_stream: "HTTP_RESPONSE_PAYLOAD:out"
}
"""
FACTS: Final = "The grass is green. The sky is blue."
SAID: Final = "Well. Grass is green [1]. The book says so. [3] Nobody knows [8]."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("citing")
    (folder / "calcs.py").write_text(CALCULATORS)
    (folder / "echo").mkdir()
    (folder / "echo" / "graph.pbtxt").write_text(GRAPH)
    with ServerProcess("--calculators", "calcs.py", "echo", cwd=folder) as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)


def asked() -> dict[str, Any]:
    cites = {"enabled": True}
    book = base64.b64encode(pdf("Nothing", "A book")).decode()
    blocks = [
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": FACTS},
            "title": "Facts",
            "citations": cites,
        },
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": book},
            "citations": cites,
        },
        {"type": "text", "text": SAID},
    ]
    messages = [{"role": "user", "content": blocks}]
    return {"model": "echo", "max_tokens": 99, "messages": messages}


def test_answers_cite_passages_whole_and_streamed(client: anthropic.Anthropic) -> None:
    whole = client.messages.create(**asked())
    with client.messages.stream(**asked()) as stream:
        streamed = stream.get_final_message()
    assert [(each.text, len(each.citations or ())) for each in whole.content] == [
        ("Well.", 0),
        (" Grass is green.", 1),
        (" The book says so.", 1),
        (" Nobody knows [8]. ", 0),
    ]
    assert [each.text for each in streamed.content] == [each.text for each in whole.content]
    assert [each.citations for each in streamed.content] == [
        each.citations for each in whole.content
    ]
    (green,), (book,) = whole.content[1].citations, whole.content[2].citations
    assert (green.type, green.document_index, green.document_title) == ("char_location", 0, "Facts")
    assert FACTS[green.start_char_index : green.end_char_index] == green.cited_text
    # The first page's only passage is 3, the second's 4.
    assert (book.type, book.document_index, book.cited_text) == ("page_location", 1, "Nothing")
    assert (book.start_page_number, book.end_page_number) == (1, 2)


def test_an_answer_can_be_sent_back(client: anthropic.Anthropic) -> None:
    first = client.messages.create(**asked())
    said = [each.model_dump() for each in first.content]
    messages = [
        *asked()["messages"],
        {"role": "assistant", "content": said},
        {"role": "user", "content": "The sky is blue [2]."},
    ]
    second = client.messages.create(**{**asked(), "messages": messages})
    assert second.content[0].citations[0].cited_text == "The sky is blue."


def test_citations_are_as_the_document_says(server: ServerProcess) -> None:
    described = Described(server.client.ask("GET", "/openapi.json").body)
    for path in ("/v1/messages",):
        answer = server.client.ask("POST", path, asked())
        described.check_answer(path, "post", 200, "application/json", answer.body)
    streamed = server.client.ask("POST", "/v1/messages", {**asked(), "stream": True})
    deltas = [
        json.loads(line.removeprefix("data: "))["delta"]
        for line in streamed.body.decode().splitlines()
        if line.startswith('data: {"type":"content_block_delta"')
    ]
    assert [each["type"] for each in deltas].count("citations_delta") == 2
