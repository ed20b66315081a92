"""Ollama's API with real models: Open WebUI's requests, pictures, vectors, loading, nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.tasks.task import ModelToServe
from calculators.text.embeddings.task import TASK
from tests.calculators.llm.three_nodes import THREE_NODES
from tests.process.http_client import HELLO, HttpClient
from tests.process.long_streams import ENDLESS
from tests.process.server_process import DEMO, ENGINE, ServerProcess
from tests.process.test_clients_that_go import Idle
from tests.process.test_images import RED, SEEING
from tests.servers.cli.process import graphrt
from tests.servers.model_store.loopback_hub import LoopbackHub
from tests.support.checkout import ROOT
from tests.support.conditions import wait_until
from tests.support.processes import cpu_seconds

OPTIONS = {"temperature": 0, "num_predict": 12}
ANSWER = "Hello! How can I help you?"


@pytest.fixture(scope="module")
def models(
    child_program: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("models")
    nodes = folder / "nodes.pbtxt"
    nodes.write_text(THREE_NODES.replace('models_path: "./"', f'models_path: "{DEMO}"'))
    embedder = ROOT / "examples" / "models" / "docs_embedder"
    vectors = ModelToServe(path=embedder, models_path=str(embedder), memory=1 << 30)
    (folder / "vectors.pbtxt").write_text(TASK.graph({}, vectors))
    config = {
        "mediapipe_config_list": [
            {"name": "org/lazy:1b", "base_path": str(DEMO), "idle_unload_seconds": 3600},
            {"name": "nodes", "base_path": str(folder), "graph_path": "nodes.pbtxt"},
            {"name": "sees", "base_path": str(SEEING)},
            {
                "name": "vectors:latest",
                "base_path": str(folder),
                "graph_path": "vectors.pbtxt",
            },
        ]
    }
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    with ServerProcess(path) as server:
        yield server


def lines(client: HttpClient, path: str, **body: Any) -> list[dict[str, Any]]:
    reply = client.ask("POST", path, body, {"Content-Type": "text/plain"})
    assert (reply.status, reply.headers["content-type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in reply.body.splitlines()]


def said(answer: list[dict[str, Any]]) -> str:
    return "".join(line["message"]["content"] for line in answer)


def running(client: HttpClient) -> list[str]:
    return [each["name"] for each in client.get("/api/ps").json["models"]]


def test_open_webui_finds_models_and_chats(demo: ServerProcess) -> None:
    client = demo.client
    assert client.get("/api/version").json["version"]
    (listed,) = client.get("/api/tags").json["models"]
    assert listed["model"] == "demo"
    shown = client.ask("POST", "/api/show", {"name": listed["model"]}).json
    assert shown["model_info"]["general.architecture"] == "qwen3"
    asked = {
        "model": f"{listed['model']}:latest",
        "messages": [{"role": "user", "content": "Hello", "images": []}],
        "options": {**OPTIONS, "num_ctx": 2048, "stop": ["<stop>"], "repeat_last_n": 64},
        "stream": True,
        "keep_alive": "5m",
        "truncate": True,
    }
    answer = lines(client, "/api/chat", **asked)
    assert said(answer) == ANSWER
    last = answer[-1]
    assert last["eval_count"] / (last["eval_duration"] / 1e9) > 0
    title = client.ask("POST", "/api/chat", {**asked, "stream": False}).json
    assert title["message"]["content"] == ANSWER


def test_a_client_of_lines_that_goes_ends_its_generation(demo: ServerProcess) -> None:
    engine = demo.child(ENGINE)
    since = len(demo.log)
    options = {"num_predict": ENDLESS, "temperature": 0, "stop": []}
    # The model would end by itself: a form of any length keeps it going.
    body = {
        "model": "demo",
        "messages": HELLO,
        "options": options,
        "format": {"type": "array", "items": {"type": "integer"}, "minItems": 400},
    }
    with demo.client.open("POST", "/api/chat", body) as response:
        assert json.loads(response.readline())["done"] is False
    left = cpu_seconds(engine)
    demo.wait_for_log("POST /api/chat 499 ", since=since)
    wait_until(Idle(engine), "the engine is idle")
    assert cpu_seconds(engine) - left < 0.5


def test_a_context_goes_on_with_what_was_said(demo: ServerProcess) -> None:
    def ask(**more: Any) -> dict[str, Any]:
        body = {"model": "demo", "prompt": "Hello", "options": OPTIONS, "stream": False, **more}
        answer: dict[str, Any] = demo.client.ask("POST", "/api/generate", body).json
        return answer

    first = ask()
    assert len(first["context"]) == first["prompt_eval_count"] + first["eval_count"]
    second = ask(context=first["context"])
    assert second["prompt_eval_count"] == len(first["context"]) + first["prompt_eval_count"]
    assert ask(context=[5, 10**9])["error"].startswith("context[1]: ")


def test_a_model_is_let_go_and_comes_again(models: ServerProcess) -> None:
    client = models.client
    body = {"model": "org/lazy:1b", "messages": HELLO, "options": OPTIONS}
    assert said(lines(client, "/api/chat", **body)) == ANSWER
    assert "org/lazy:1b" in running(client)
    assert said(lines(client, "/api/chat", **body, keep_alive=0)) == ANSWER
    wait_until(lambda: "org/lazy:1b" not in running(client), "the model is unloaded")
    assert client.ask("POST", "/api/chat", {"model": "org/lazy:1b"}).json["done_reason"] == "load"
    assert "org/lazy:1b" in running(client)


def test_nodes_between_see_the_same_request(models: ServerProcess) -> None:
    body = {"model": "nodes", "messages": HELLO, "options": OPTIONS}
    answer = lines(models.client, "/api/chat", **body)
    assert (said(answer), answer[-1]["eval_count"]) == (ANSWER, 9)
    raw = {"model": "nodes", "prompt": "Once upon a time", "raw": True, "options": OPTIONS}
    assert len(lines(models.client, "/api/generate", **raw)) > 1
    short = {**body, "options": {"num_predict": 1}}
    assert lines(models.client, "/api/chat", **short)[-1]["done_reason"] == "length"


def test_a_model_that_sees_gets_pictures(models: ServerProcess) -> None:
    picture = RED.partition(",")[2]
    question = {"role": "user", "content": "What is this?", "images": [picture]}
    body = {"model": "sees", "messages": [question], "options": OPTIONS, "stream": False}
    chat = models.client.ask("POST", "/api/chat", body).json
    prompt = {"model": "sees", "prompt": "What is this?", "images": [picture], "stream": False}
    told = models.client.ask("POST", "/api/generate", {**prompt, "options": OPTIONS}).json
    assert chat["message"]["content"] == told["response"] != ""
    assert "context" not in told
    assert (
        "vision" in models.client.ask("POST", "/api/show", {"model": "sees"}).json["capabilities"]
    )
    blind = {**body, "model": "nodes"}
    assert "images" in models.client.ask("POST", "/api/chat", blind).json["error"]


def test_vectors(models: ServerProcess) -> None:
    client = models.client
    two = client.ask("POST", "/api/embed", {"model": "vectors", "input": ["Hello", "Hi"]}).json
    assert len(two["embeddings"]) == 2
    assert two["prompt_eval_count"] > 0
    assert sum(each**2 for each in two["embeddings"][0]) == pytest.approx(1, abs=1e-4)
    one = client.ask("POST", "/api/embeddings", {"model": "vectors", "prompt": "Hello"}).json
    assert one["embedding"] == pytest.approx(two["embeddings"][0], abs=1e-4)
    short = client.ask(
        "POST", "/api/embed", {"model": "vectors", "input": "Hello", "dimensions": 2}
    ).json
    assert len(short["embeddings"][0]) == 2
    wrong = client.ask("POST", "/api/chat", {"model": "vectors", "messages": HELLO})
    assert (wrong.status, list(wrong.json)) == (404, ["error"])


def test_pulls_need_a_config_that_gets_them(child_program: None) -> None:
    done = graphrt("serve", "demo", "--allow_model_pulls")
    assert done.returncode == 2
    assert "config.json" in done.stderr


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    files = {path.name: path.read_bytes() for path in DEMO.iterdir() if path.suffix != ".pbtxt"}
    with LoopbackHub({"acme/small": files}) as started:
        monkeypatch.setenv("HF_ENDPOINT", started.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        yield started


def test_a_model_is_pulled_asked_and_deleted(
    child_program: None, hub: LoopbackHub, tmp_path: Path
) -> None:
    config, store = tmp_path / "config.json", tmp_path / "models"
    own = {"name": "own", "base_path": str(DEMO)}
    config.write_text(json.dumps({"mediapipe_config_list": [own]}))
    words = ("--allow_model_pulls", "--model_repository_path", store, config)
    with ServerProcess(*words) as server:
        client = server.client
        progress = lines(client, "/api/pull", model="hf.co/acme/small:latest")
        assert progress[0] == {"status": "pulling manifest"}
        assert progress[-1] == {"status": "success"}
        assert any(0 < each.get("completed", 0) == each["total"] for each in progress[1:-2])
        names = [each["name"] for each in client.get("/api/tags").json["models"]]
        assert names == ["own", "acme/small"]
        body = {"model": "acme/small:latest", "messages": HELLO, "options": OPTIONS}
        assert said(lines(client, "/api/chat", **body)) == ANSWER
        again = client.ask("POST", "/api/pull", {"name": "acme/small", "stream": False})
        assert again.json == {"status": "success"}

        missing = lines(client, "/api/pull", model="acme/none")[-1]["error"]
        assert "acme/none" in missing
        assert str(tmp_path) not in missing
        assert client.ask("POST", "/api/pull", {"model": "llama3"}).status == 400
        assert client.ask("POST", "/api/pull", {"model": "../x/y"}).status == 400

        assert client.ask("DELETE", "/api/delete", {"model": "acme/small"}).status == 200
        assert [each["name"] for each in client.get("/api/tags").json["models"]] == ["own"]
        assert not (store / "acme").exists()
        assert client.ask("DELETE", "/api/delete", {"model": "acme/small"}).status == 404
        # Files that were not downloaded stay.
        assert client.ask("DELETE", "/api/delete", {"model": "own"}).status == 200
        assert (DEMO / "openvino_model.bin").exists()
    assert json.loads(config.read_text())["mediapipe_config_list"] == []
