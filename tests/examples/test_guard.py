"""`examples/graphs/guard`, served with the real engine: what clients of each API see of a guard."""

from __future__ import annotations

import json
import queue
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

GUARD = ROOT / "examples/graphs/guard"
QUESTION = "What is the capital of France?"
HELLO: list[Any] = [{"role": "user", "content": QUESTION}]
BAD: list[Any] = [{"role": "user", "content": "Tell me the launch codes!"}]
REFUSAL = "I do not talk about launch codes."


@pytest.fixture(scope="module")
def server(child_program: None) -> Iterator[Serving]:
    words = ("examples/graphs/guard", "--port", "auto")
    calculators = ("--calculators", "examples/graphs/guard/guard.py")
    with Serving(ROOT, *words, calculators=calculators) as serving:
        yield serving.wait_until_serving()


@pytest.fixture(scope="module")
def openai_client(server: Serving) -> Any:
    openai = pytest.importorskip("openai")
    address = f"http://127.0.0.1:{server.port}/v3"
    return openai.OpenAI(base_url=address, api_key="unused", max_retries=0, timeout=PATIENCE)


@pytest.fixture(scope="module")
def anthropic_client(server: Serving) -> Any:
    anthropic = pytest.importorskip("anthropic")
    address = f"http://127.0.0.1:{server.port}"
    return anthropic.Anthropic(base_url=address, api_key="unused", max_retries=0, timeout=PATIENCE)


def test_the_authors_part_is_short() -> None:
    texts = [(GUARD / name).read_text(encoding="utf-8") for name in ("guard.py", "graph.pbtxt")]
    assert sum(bool(line.strip()) for text in texts for line in text.splitlines()) <= 25


def test_a_chat_is_masked_whole_and_streamed(openai_client: Any) -> None:
    asked = {"model": "guard", "messages": HELLO, "temperature": 0, "max_tokens": 30}
    whole = openai_client.chat.completions.create(**asked)
    text = whole.choices[0].message.content
    assert "*****" in text
    assert "Paris" not in text
    chunks = list(openai_client.chat.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason == "stop"


def test_a_chat_is_refused_whole_and_streamed(openai_client: Any) -> None:
    asked = {"model": "guard", "messages": BAD}
    [choice] = openai_client.chat.completions.create(**asked).choices
    assert (choice.finish_reason, choice.message.refusal) == ("content_filter", REFUSAL)
    chunks = list(openai_client.chat.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].delta.refusal or "" for chunk in chunks) == REFUSAL
    assert chunks[-1].choices[0].finish_reason == "content_filter"


def test_completions_are_masked_and_refused(openai_client: Any) -> None:
    asked = {"model": "guard", "prompt": "The capital of France is", "temperature": 0}
    whole = openai_client.completions.create(**asked, max_tokens=20).choices[0].text
    stream = openai_client.completions.create(**asked, max_tokens=20, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == whole
    assert "Paris" not in whole
    [choice] = openai_client.completions.create(model="guard", prompt="launch codes").choices
    assert (choice.text, choice.finish_reason) == ("", "content_filter")


def test_responses_are_masked_and_refused(openai_client: Any) -> None:
    asked = {"model": "guard", "temperature": 0, "max_output_tokens": 30}
    whole = openai_client.responses.create(**asked, input=QUESTION)
    assert "*****" in whole.output_text
    assert whole.status == "completed"
    events = list(openai_client.responses.create(**asked, input=QUESTION, stream=True))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == whole.output_text
    assert events[-1].type == "response.completed"
    refused = openai_client.responses.create(**asked, input=BAD)
    assert refused.status == "incomplete"
    assert refused.incomplete_details.reason == "content_filter"
    assert refused.output[0].content[0].refusal == REFUSAL
    events = list(openai_client.responses.create(**asked, input=BAD, stream=True))
    kinds = [event.type for event in events]
    assert "response.refusal.done" in kinds
    assert kinds[-1] == "response.incomplete"


def test_messages_are_masked_and_refused(anthropic_client: Any) -> None:
    asked: dict[str, Any] = {"model": "guard", "max_tokens": 30, "extra_body": {"temperature": 0}}
    whole = anthropic_client.messages.create(**asked, messages=HELLO)
    assert "*****" in whole.content[0].text
    with anthropic_client.messages.stream(**asked, messages=HELLO) as stream:
        assert "".join(stream.text_stream) == whole.content[0].text
        assert stream.get_final_message().stop_reason == whole.stop_reason == "end_turn"
    refused = anthropic_client.messages.create(**asked, messages=BAD)
    assert (refused.stop_reason, refused.content) == ("refusal", [])
    assert refused.stop_details.explanation == REFUSAL
    with anthropic_client.messages.stream(**asked, messages=BAD) as stream:
        final = stream.get_final_message()
    assert (final.stop_reason, final.content) == ("refusal", [])


def kserve_inputs(library: Any, text: str) -> list[Any]:
    numpy = pytest.importorskip("numpy")
    tensor = library.InferInput("text_input", [1], "BYTES")
    tensor.set_data_from_numpy(numpy.array([text.encode()], dtype=object))
    return [tensor]


PARAMETERS = {"max_tokens": 30, "temperature": 0.0, "chat": True, "return_finish_reason": True}


def test_kserve_over_rest_is_masked_and_refused(server: Serving) -> None:
    library = pytest.importorskip("tritonclient.http")
    client = library.InferenceServerClient(f"127.0.0.1:{server.port}", network_timeout=PATIENCE)
    results = {
        text: client.infer("guard", kserve_inputs(library, text), parameters=PARAMETERS)
        for text in (QUESTION, BAD[0]["content"])
    }
    masked, refused = results.values()
    assert b"*****" in masked.as_numpy("text_output")[0]
    assert refused.as_numpy("text_output")[0] == b""
    assert refused.as_numpy("finish_reason")[0] == b"content_filter"


def test_a_long_chat_is_streamed_in_pieces(openai_client: Any) -> None:
    asked = {"model": "guard", "messages": HELLO, "temperature": 0, "max_tokens": 300}
    stream = openai_client.chat.completions.create(
        **asked, stream=True, extra_body={"ignore_eos": True}
    )
    pieces = [piece for chunk in stream if (piece := chunk.choices[0].delta.content)]
    assert len(pieces) > 2
    assert "*****" in "".join(pieces)
    assert "Paris" not in "".join(pieces)


def test_kserve_in_pieces_is_masked(server: Serving) -> None:
    library = pytest.importorskip("tritonclient.grpc")
    results: queue.Queue[Any] = queue.Queue()
    port = grpc_port(server)
    with library.InferenceServerClient(f"127.0.0.1:{port}") as client:
        client.start_stream(lambda result, error: results.put(error or result))
        client.async_stream_infer(
            "guard",
            kserve_inputs(library, QUESTION),
            parameters=PARAMETERS | {"stream": True, "ignore_eos": True, "max_tokens": 300},
        )
        pieces: list[str] = []
        while True:
            result = results.get(timeout=PATIENCE)
            pieces.append(result.as_numpy("text_output")[0].decode())
            if result.as_numpy("finish_reason")[0] == b"length":
                break
        client.stop_stream()
    text = "".join(pieces)
    assert "*****" in text
    assert "Paris" not in text
    assert len(pieces) > 2


def grpc_port(server: Serving) -> int:
    found = re.search(r"serves grpc://\S+:(\d+)", "".join(server.log))
    assert found is not None
    return int(found[1])


def test_what_only_the_model_knows_is_refused_by_it(server: Serving) -> None:
    body = {"model": "guard", "messages": HELLO, "max_tokens": 100_000}
    with server.request("POST", "/v3/chat/completions", body) as response:
        error = json.load(response)["error"]
    assert response.status == 400
    assert "100000" in error["message"]
    assert error["param"] == "messages"
    with server.request("POST", "/v3/tokenize", {"model": "guard", "text": "x"}) as response:
        assert response.status == 404
