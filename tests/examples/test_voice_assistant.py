"""`examples/graphs/voice_assistant`, served with a model that counts and one that speaks tones."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import FormFile, HttpPayload, MultipartForm
from calculators.speech.text_to_speech.sentences import SentenceSplitter, split_sentences
from graph_runtime import REGISTRY, Calculator, CalculatorContext, In, Out, Registry
from servers.config import find_graph
from servers.serving.loaded_graph import load_graph
from tests.calculators.speech.text_to_speech.tone_model import seconds
from tests.examples.voice_graph import EXAMPLE, HEARD, MODELS, put_graph, recording, system_message
from tests.servers.cli.serving import Serving
from tests.support.patience import PATIENCE


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = put_graph(tmp_path_factory.mktemp("voice"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["mediapipe_config_list"].append({"name": "demo", "base_path": str(MODELS / "demo")})
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with Serving(folder, "config.json", calculators=()) as serving:
        yield serving.wait_until_serving()


def post_form(server: Serving, files: dict[str, bytes]) -> tuple[int, str, bytes]:
    """Send a form with the model's name; return status, content type and body."""
    boundary = uuid.uuid4().hex
    parts = [b'Content-Disposition: form-data; name="model"\r\n\r\nassistant\r\n']
    parts += [
        f'Content-Disposition: form-data; name="{name}"; filename="a.wav"\r\n\r\n'.encode()
        + content
        + b"\r\n"
        for name, content in files.items()
    ]
    mark = f"--{boundary}\r\n".encode()
    body = mark + mark.join(parts) + f"--{boundary}--\r\n".encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    try:
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        connection.request("POST", "/v3/voice", body, kind)
        with connection.getresponse() as response:
            return response.status, response.getheader("Content-Type", ""), response.read()
    finally:
        connection.close()


def test_a_question_is_answered_aloud(server: Serving) -> None:
    status, kind, body = post_form(server, {"file": recording()})
    assert (status, kind) == (200, "audio/wav"), body[:300]
    samples, rate = soundfile.read(io.BytesIO(body))
    chat = {
        "model": "demo",
        "messages": [
            {"role": "system", "content": system_message()},
            {"role": "user", "content": HEARD},
        ],
    }
    with server.request("POST", "/v3/chat/completions", chat) as response:
        text = json.loads(response.read())["choices"][0]["message"]["content"]
    assert len(samples) / rate == pytest.approx(seconds(*split_sentences(text)))


def test_a_request_without_a_recording_is_refused(server: Serving) -> None:
    status, _, body = post_form(server, {})
    assert (status, json.loads(body)["error"]["param"]) == (400, "file")
    status, _, body = post_form(server, {"file": b"no sound"})
    assert (status, json.loads(body)["error"]["param"]) == (400, "file")
    with server.request("POST", "/v3/voice", {"model": "assistant", "text": "Hello"}) as response:
        assert response.status == 400
        assert json.loads(response.read())["error"]["param"] == "file"
    assert post_form(server, {"file": recording()})[0] == 200


class Hold(Calculator):
    """Passes text on; after the first sentence only when its sound has been sent."""

    text = In[str]("TEXT")
    same = Out[str]("TEXT")
    heard: asyncio.Event

    def open(self, cc: CalculatorContext) -> None:
        self.splitter = SentenceSplitter()
        self.is_complete = False

    async def process(self, cc: CalculatorContext) -> None:
        if self.is_complete:
            await self.heard.wait()
        piece = cc.get(self.text)
        self.is_complete = self.is_complete or any(self.splitter.add(piece))
        cc.emit(self.same, piece)


def test_the_first_sentence_is_heard_before_the_answer_is_complete(tmp_path: Path) -> None:
    folder = put_graph(tmp_path)
    file = folder / "graph.pbtxt"
    graph = file.read_text(encoding="utf-8").replace(
        '"TEXT:words"\n  output', '"TEXT:held"\n  output'
    )
    graph += '\nnode { calculator: "Hold" input_stream: "TEXT:words" output_stream: "TEXT:held" }\n'
    file.write_text(graph, encoding="utf-8")
    registry = Registry(REGISTRY)
    registry.register_calculator(Hold)
    entry = replace(find_graph(folder), python_path=(folder / "assistant.py",))

    async def run() -> list[Any]:
        Hold.heard = asyncio.Event()
        packets: list[Any] = []

        def send(packet: Any) -> None:
            packets.append(packet)
            Hold.heard.set()

        form = MultipartForm(
            {"model": ["assistant"]}, {"file": [FormFile("a.wav", "audio/wav", recording())]}
        )
        loaded = await load_graph(entry, registry)
        try:
            await loaded.answer(HttpPayload("/v3/voice", {}, form=form), send)
        finally:
            await loaded.close()
        return packets

    first, *others = asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert isinstance(first, HttpAnswer)
    assert others, "the answer has more than one sentence"


def test_the_commands_of_the_comment_are_those_of_the_page() -> None:
    graph = (EXAMPLE / "graph.pbtxt").read_text(encoding="utf-8")
    page = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    for command in (
        "graphrt pull speech",
        "graphrt serve examples/graphs/voice_assistant/config.json",
        "curl localhost:8000/v3/voice -F model=assistant -F file=@question.wav -o answer.wav",
    ):
        assert command in graph
        assert command in page
