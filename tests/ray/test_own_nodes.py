"""Nodes with replicas of their own: two graphs that share an engine, and an embedder apart."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed (make ray)")

import numpy as np
import openai
import tritonclient.grpc
import tritonclient.utils
from numpy.typing import NDArray

from tests.calculators.speech.audio.sounds import tone, wav
from tests.calculators.speech.speech_to_text import counter
from tests.calculators.speech.text_to_speech import tone_model
from tests.calculators.tensors.openvino.graphs import session_and_inference
from tests.calculators.text.embeddings.tiny_embedder import expected, graph, make_model
from tests.ray.cluster_site import (
    SMALL,
    Site,
    grpc_address,
    in_threads,
    replicas_of,
    save_doubling,
    wait_until,
)
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

DEMO = ROOT / "examples/models/demo"
QUESTION = [{"role": "user", "content": "What is graphrt?"}]
OWN = {"place": "own", **SMALL}
#: The canonical name of a session's node without a name.
SESSION = "OpenVINOModelServerSessionCalculator"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("own"))
    chat = (DEMO / "graph.pbtxt").read_text().replace('"./"', json.dumps(str(DEMO)))
    for name in ("left", "right"):
        site.add_text(name, chat, nodes={"LLMExecutor": {**OWN, "min_replicas": 2}})
    model = make_model(site.folder / "embedder")
    text = graph(pooling="MEAN").replace('"./"', json.dumps(str(model)))
    site.add_text("vectors", text, nodes={"EmbeddingsExecutor": OWN})
    save_doubling(site.folder / "doubled/double/1/model.xml")
    doubled = session_and_inference("double", ["X:x"], ["Y:y"])
    site.add_text("doubled", doubled, nodes={SESSION: OWN})
    voice = tone_model.make_model(site.folder / "tones")
    tones = tone_model.graph().replace('"./"', json.dumps(str(voice)))
    ear = counter.make_model(site.folder / "counter")
    hearing = counter.GRAPH.replace('"./"', json.dumps(str(ear)))
    site.add_text("ear", hearing, nodes={"S2tExecutor": OWN})
    site.add_text("voice", tones, nodes={"T2sExecutor": OWN})
    site.add_text("wrong", text, nodes={"EmbeddingExecutor": OWN})
    return site


@pytest.fixture(scope="module")
def serving(site: Site) -> Iterator[Serving]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", "local")
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        with Serving(site.folder, "config.json", "--on", "ray", "--port", "auto") as server:
            yield server.wait_until_serving()
            server.send_signal()
            assert server.end()[0] == 0


@pytest.fixture
def client(serving: Serving) -> Iterator[openai.OpenAI]:
    url = f"http://127.0.0.1:{serving.port}/v3"
    with openai.OpenAI(base_url=url, api_key="none") as client:
        yield client


def doubled(serving: Serving, matrix: NDArray[np.float32]) -> Any:
    """Let the graph with a plain model double a matrix; ask as a KServe client."""
    x = tritonclient.grpc.InferInput("x", matrix.shape, "FP32")
    x.set_data_from_numpy(matrix)
    with tritonclient.grpc.InferenceServerClient(grpc_address(serving)) as client:
        return client.infer("doubled", [x], client_timeout=PATIENCE).as_numpy("y")


def metrics(serving: Serving) -> str:
    with serving.request("GET", "/metrics") as response:
        return response.read().decode()


def running(serving: Serving) -> float:
    """Return the number of requests that engines have."""
    found = re.findall(r'graphrt_llm_requests_running\{replica="\w+",.*?\} (\S+)', metrics(serving))
    return sum(map(float, found))


def text_of(events: Any) -> str:
    return "".join(each.choices[0].delta.content or "" for each in events)


def test_two_graphs_share_the_engine_of_their_nodes(
    serving: Serving, client: openai.OpenAI
) -> None:
    settings: dict[str, Any] = {"messages": QUESTION, "max_tokens": 30, "temperature": 0}
    whole = client.chat.completions.create(model="left", **settings)
    events = list(client.chat.completions.create(model="right", stream=True, **settings))
    assert whole.usage.completion_tokens > 3
    assert len(events) > 3
    assert text_of(events) == whole.choices[0].message.content
    assert len(replicas_of("own-demo", serving.pid)) == 2
    # The engines are in these replicas, and not in those of the graphs.
    engines = re.findall(r'graphrt_llm_engine_up\{replica="(\w+)",graph="(\w+)"', metrics(serving))
    assert len(set(engines)) == 2
    assert {name for _, name in engines} == {"demo"}


def test_errors_and_choices_are_those_of_one_process(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="at least one message"):
        client.chat.completions.create(model="left", messages=[])
    with pytest.raises(openai.BadRequestError, match="tokens"):
        client.completions.create(model="left", prompt="word " * 100_000)
    answer = client.completions.create(
        model="left", prompt="Once", n=3, max_tokens=40, stop=["e"], temperature=1.5, seed=3
    )
    assert [each.finish_reason for each in answer.choices if "e" in each.text] == []


def test_a_client_that_leaves_frees_the_engine(serving: Serving) -> None:
    asked = {"model": "left", "messages": QUESTION, "stream": True, "max_tokens": 1500}
    with serving.request("POST", "/v3/chat/completions", {**asked, "ignore_eos": True}) as response:
        assert response.readline().startswith(b"data: ")
    wait_until(lambda: running(serving) == 0)


def test_vectors_are_those_of_the_model(serving: Serving, client: openai.OpenAI) -> None:
    found = client.embeddings.create(model="vectors", input=["Hello", "a second text"])
    for each, text in zip(found.data, ("Hello", "a second text"), strict=True):
        assert each.embedding == pytest.approx(expected(text, "MEAN"), abs=1e-4)
    assert len(replicas_of("own-embedder", serving.pid)) == 1
    with pytest.raises(openai.BadRequestError, match="longer than allowed 32"):
        client.embeddings.create(model="vectors", input="word " * 500)


def test_models_hear_and_speak_in_replicas_of_their_nodes(
    serving: Serving, client: openai.OpenAI
) -> None:
    file = ("two.wav", wav(tone(2.0)))
    heard = client.audio.transcriptions.create(model="ear", file=file)
    assert heard.text == counter.TEXT
    assert len(replicas_of("own-counter", serving.pid)) == 1
    with pytest.raises(openai.BadRequestError):
        client.audio.transcriptions.create(model="ear", file=("two.wav", b"no sound"))
    said = client.audio.speech.create(
        model="voice", voice="default", input="Hello there.", response_format="pcm"
    )
    assert len(said.content) == 2 * round(24_000 * tone_model.seconds("Hello there."))
    assert len(replicas_of("own-tones", serving.pid)) == 1


def test_a_plain_model_of_a_graph_has_replicas_of_its_own(serving: Serving, site: Site) -> None:
    large = np.arange(1500 * 1500, dtype=np.float32).reshape(1500, 1500)
    assert np.array_equal(doubled(serving, large), 2 * large)
    assert len(replicas_of("own-double", serving.pid)) == 1
    with pytest.raises(tritonclient.utils.InferenceServerException, match="is expected"):
        doubled(serving, large[0])
    site.rescale("doubled", nodes={SESSION: {**OWN, "min_replicas": 2}})
    wait_until(lambda: len(replicas_of("own-double", serving.pid)) == 2)
    victim = replicas_of("own-double", serving.pid)[0]
    os.kill(victim, signal.SIGKILL)
    for _ in range(10):
        assert doubled(serving, large[:1, :2]).tolist() == [[0, 2]]
    wait_until(lambda: len(set(replicas_of("own-double", serving.pid)) - {victim}) == 2)


def test_a_node_that_is_not_there_is_named(serving: Serving) -> None:
    state = serving.get("/v1/config")[1]["wrong"]["model_version_status"][0]
    assert 'the graph has no node "EmbeddingExecutor"' in state["status"]["error_message"]


def test_a_node_is_scaled_without_its_graph(serving: Serving, site: Site) -> None:
    before = replicas_of("vectors", serving.pid)
    site.rescale("vectors", nodes={"EmbeddingsExecutor": {**OWN, "min_replicas": 2}})
    wait_until(lambda: len(replicas_of("own-embedder", serving.pid)) == 2)
    assert replicas_of("vectors", serving.pid) == before


def test_a_killed_engine_ends_its_streams_only(serving: Serving, client: openai.OpenAI) -> None:
    victims = replicas_of("own-demo", serving.pid)

    def stream() -> str:
        events = client.chat.completions.create(
            model="right", messages=QUESTION, stream=True, max_tokens=1500, temperature=0,
            extra_body={"ignore_eos": True},
        )  # fmt: skip
        text = next(iter(events)).choices[0].delta.content or ""
        if begun.wait(PATIENCE) == 0:
            os.kill(victims[0], signal.SIGKILL)
        return text + text_of(events)

    begun = threading.Barrier(4)
    results = in_threads(4, stream)
    failed = [each for each in results if isinstance(each, Exception)]
    assert 0 < len(failed) < 4, results
    assert all("is gone" in str(each) or "503" in str(each) for each in failed), failed
    assert client.chat.completions.create(model="left", messages=QUESTION, max_tokens=5).choices
    wait_until(lambda: len(set(replicas_of("own-demo", serving.pid)) - set(victims[:1])) == 2)


def test_an_engine_ends_with_the_last_graph_that_uses_it(serving: Serving, site: Site) -> None:
    site.remove("left")
    wait_until(lambda: not replicas_of("left", serving.pid))
    assert len(replicas_of("own-demo", serving.pid)) == 2
    site.remove("right")
    wait_until(lambda: not replicas_of("own-demo", serving.pid))
