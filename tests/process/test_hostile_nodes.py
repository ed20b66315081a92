"""Nodes of authors that fail or hang in the middle of an answer: every API's client gets one clear
end, the model is stopped, and other requests are answered."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from tests.process.http_client import HttpClient, Reply
from tests.process.long_streams import ENDLESS
from tests.process.server_process import DEMO, ENGINE, ServerProcess
from tests.process.test_clients_that_go import Idle
from tests.support.conditions import wait_until
from tests.support.patience import PATIENCE
from tests.support.processes import cpu_seconds

NODES: Final = '''\
import asyncio
from collections.abc import AsyncIterator

from calculators.language import Begun, Delta, GenerationRequest, answers, on_deltas, on_text

SECRET = "a text that no client may see"


@answers
async def words(request: GenerationRequest) -> AsyncIterator[str]:
    """Says what was asked, word by word."""
    for word in request.last_text().split():
        yield word + " "


@on_text
async def moods(text: AsyncIterator[str]) -> AsyncIterator[str]:
    """Does what the words say."""
    async for piece in text:
        if piece.strip() == "raise":
            raise ValueError(SECRET)
        if piece.strip() == "hang":
            await asyncio.Event().wait()
        yield piece


@on_text
class Filter:
    """Does the same without a generator."""

    def feed(self, text: str) -> str:
        if text.strip() == "break":
            raise ValueError(SECRET)
        return text

    def finish(self) -> str:
        return ""


@on_deltas
async def watch(deltas: AsyncIterator[Delta]) -> AsyncIterator[Delta]:
    """Fails or hangs at the tenth item, as the request says."""
    mood, count = "", 0
    async for item in deltas:
        if isinstance(item, Begun):
            mood = item.request.last_text()
        count += 1
        if count == 10 and mood == "raise":
            raise ValueError(SECRET)
        if count == 10 and mood == "hang":
            await asyncio.Event().wait()
        yield item
'''
PORTS: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:input" output_stream: "REQUEST:request"
}
node {
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:last" output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""
WORDS: Final = (
    PORTS
    + """\
node { calculator: "words" input_stream: "REQUEST:request" output_stream: "DELTAS:said" }
node {
  name: "moody" calculator: "moods" input_stream: "DELTAS:said" output_stream: "DELTAS:changed"
}
node {
  name: "brittle" calculator: "Filter" input_stream: "DELTAS:changed" output_stream: "DELTAS:last"
}
"""
)
MODEL: Final = (
    PORTS
    + """\
node {
  name: "model" calculator: "LLMCalculator"
  input_stream: "REQUEST:request" output_stream: "DELTAS:said"
  input_stream: "LOOPBACK:loopback" output_stream: "LOOPBACK:loopback"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  node_options {
    [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "%s" }
  }
}
node {
  name: "watcher" calculator: "watch" input_stream: "DELTAS:said" output_stream: "DELTAS:last"
}
"""
)


class Api(NamedTuple):
    """An API: its path, for a stream too, and the member with the text.

    Attributes:
        failed, late: words of an error in it, of a node that fails and of one that hangs.
    """

    path: str
    text: str
    failed: str
    late: str
    stream: str = ""

    def ask(
        self, client: HttpClient, model: str, text: str, *, streams: bool, seconds: float = 0
    ) -> Reply:
        value: Any = text
        if self.text == "messages":
            value = [{"role": "user", "content": text}]
        body = {"model": model, self.text: value}
        headers = {} if not seconds else {"X-Request-Timeout": str(seconds)}
        if self.stream:
            path = (self.stream if streams else self.path).format(model)
            body = {self.text: text, "parameters": {"max_tokens": ENDLESS, "ignore_eos": True}}
            return client.ask("POST", path, body, headers)
        limit = "max_output_tokens" if self.text == "input" else "max_tokens"
        body |= {limit: ENDLESS, "ignore_eos": True, "stream": streams}
        return client.ask("POST", self.path, body, headers)


APIS: Final = {
    "chat": Api("/v3/chat/completions", "messages", "server_error", "timeout"),
    "completions": Api("/v3/completions", "prompt", "server_error", "timeout"),
    "responses": Api("/v3/responses", "input", "server_error", "timeout"),
    "messages": Api("/v1/messages", "messages", "api_error", "timeout_error"),
    "kserve": Api("/v2/models/{}/generate", "text_input", "", "", "/v2/models/{}/generate_stream"),
}
both = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
apis = pytest.mark.parametrize("name", APIS)


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, child_program: None
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "nodes.py").write_text(NODES)
    for name, text in (("words", WORDS), ("model", MODEL % DEMO)):
        (folder / name).mkdir()
        (folder / name / "graph.pbtxt").write_text(text)
    listed = [{"name": name} for name in ("words", "model")]
    config = {"python_path": "nodes.py", "mediapipe_config_list": listed}
    (folder / "config.json").write_text(json.dumps(config))
    with ServerProcess("config.json", "--port", "auto", cwd=folder) as found:
        yield found


@pytest.fixture
def client(server: ServerProcess) -> HttpClient:
    return server.client


def told(reply: Reply, *, streams: bool) -> tuple[str, str]:
    """Return the text of an answer, and that of the only error in it."""
    texts: list[str] = []
    errors: list[str] = []
    bodies = [reply.body.decode()]
    if streams:
        events = [line for line in bodies[0].splitlines() if line.startswith("data:")]
        bodies = [line.removeprefix("data:").strip() for line in events]
    for body in bodies:
        if body != "[DONE]":
            _find(json.loads(body), texts, errors)
    (error,) = set(errors)
    assert "no client may see" not in reply.body.decode()
    return "".join(texts), error


def _find(value: Any, texts: list[str], errors: list[str]) -> None:
    """Collect the texts of errors, and of pieces of answers, of all APIs."""
    if isinstance(value, list):
        for each in value:
            _find(each, texts, errors)
    if not isinstance(value, dict):
        return
    for name, member in value.items():
        if name == "error" and member:
            errors.append(member if isinstance(member, str) else member["message"])
        elif name in ("text", "content", "text_output", "delta") and isinstance(member, str):
            texts.append(member)
        elif name not in ("response", "item", "part"):
            _find(member, texts, errors)
        elif isinstance(member, dict) and member.get("error"):
            errors.append(member["error"]["message"])


@both
@apis
@pytest.mark.parametrize(("word", "node"), [("raise", "moody"), ("break", "brittle")])
def test_a_node_that_raises_ends_the_answer_with_its_name(
    client: HttpClient, name: str, streams: bool, word: str, node: str
) -> None:
    reply = APIS[name].ask(client, "words", f"one two {word} three", streams=streams)
    text, error = told(reply, streams=streams)
    assert f'node "{node}" failed' in error
    assert reply.status == (200 if streams else 500)
    assert "three" not in text
    assert text.startswith("one two") is streams
    assert APIS[name].failed in reply.body.decode()


@both
@apis
def test_a_node_that_raises_at_once_gives_a_status(
    client: HttpClient, name: str, streams: bool
) -> None:
    reply = APIS[name].ask(client, "words", "raise", streams=streams)
    assert 'node \\"moody\\" failed' in reply.body.decode()
    assert "no client may see" not in reply.body.decode()
    assert reply.status == 500 or (streams and reply.status == 200)


@both
@apis
def test_a_node_that_never_yields_is_cut_at_the_deadline_with_its_name(
    client: HttpClient, name: str, streams: bool
) -> None:
    reply = APIS[name].ask(client, "words", "one two hang three", streams=streams, seconds=0.7)
    text, error = told(reply, streams=streams)
    assert "the request was not answered within 0.7 s, its time-out: node" in error
    assert '"moody"' in error
    assert reply.status == (200 if streams else 504)
    assert text.startswith("one two") is streams
    assert APIS[name].late in reply.body.decode()
    assert APIS["chat"].ask(client, "words", "fine", streams=False).status == 200


@both
@apis
@pytest.mark.parametrize(("word", "seconds"), [("raise", 0.0), ("hang", 2.0)])
def test_the_model_behind_such_a_node_is_stopped(
    server: ServerProcess, name: str, streams: bool, word: str, seconds: float
) -> None:
    engine = server.child(ENGINE)
    reply = APIS[name].ask(server.client, "model", word, streams=streams, seconds=seconds)
    _, error = told(reply, streams=streams)
    assert '"watcher"' in error
    used = cpu_seconds(engine)
    wait_until(Idle(engine), "the engine is idle")
    assert cpu_seconds(engine) - used < 0.5


@pytest.mark.parametrize("model", ["words", "model"])
@pytest.mark.parametrize("streams", [False, True], ids=["call", "stream"])
def test_a_node_that_raises_ends_a_call_of_grpc_with_its_name(
    server: ServerProcess, streams: bool, model: str
) -> None:
    triton = pytest.importorskip("tritonclient.grpc", reason="the extra clients is not installed")
    from tritonclient.utils import InferenceServerException

    address = server.wait_for_log(r"grpc://(127\.0\.0\.1:\d+)")[1]
    text = triton.InferInput("text_input", [1], "BYTES")
    text.set_data_from_numpy(np.array([b"raise"], dtype=object))
    limits = {"max_tokens": ENDLESS, "ignore_eos": True}
    with triton.InferenceServerClient(address) as grpc_client:
        if streams:
            answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
            grpc_client.start_stream(lambda result, error: answers.put(error))
            grpc_client.async_stream_infer(model, [text], parameters=limits)
            error = None
            while error is None:
                error = answers.get(timeout=PATIENCE)
            grpc_client.stop_stream()
        else:
            with pytest.raises(InferenceServerException) as caught:
                grpc_client.infer(model, [text], parameters=limits)
            error = caught.value
    node = "moody" if model == "words" else "watcher"
    assert f'node "{node}" failed' in str(error)
    assert "no client may see" not in str(error)


def test_the_log_names_the_node_and_the_author_finds_the_place(server: ServerProcess) -> None:
    since = len(server.log)
    APIS["chat"].ask(server.client, "words", "one raise", streams=False)
    server.wait_for_log('node "moody" failed', since=since)
    server.wait_for_log(r"nodes\.py", since=since)
    server.wait_for_log("ValueError: a text that no client may see", since=since)
    APIS["chat"].ask(server.client, "words", "one hang", streams=False, seconds=0.3)
    server.wait_for_log('0.3 s, its time-out: node.*"moody"', since=since)
