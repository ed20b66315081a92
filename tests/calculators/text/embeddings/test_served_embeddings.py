"""The embeddings endpoint of a real server over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.text.embeddings.request import parse_embeddings_request
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.text.embeddings.tiny_embedder import MAX_TOKENS, expected, graph, make_model
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving, make_site
from tests.servers.fronts.openapi.described import Described

DESCRIBED: Final = Described()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    make_site(tmp_path)
    make_model(tmp_path / "tiny", pooling="mean_tokens")
    return tmp_path


def test_a_directory_is_served_as_the_task_says(site: Path) -> None:
    words = ["--model_name", "tiny", "--model_path", "tiny", "--task", "embeddings"]
    with Serving(
        site, *words, "--normalize", "false", is_forked=False
    ).wait_until_serving() as serving:
        log = "".join(serving.log)
        assert "tiny: OpenVINO model, served as embeddings" in log
        assert "/v3/embeddings" in log  # the request to try out
        for path in ("/v3/embeddings", "/v1/embeddings", "/v3/v1/embeddings"):
            status, answer = serving.post(path, {"model": "tiny", "input": "Hello"})
            assert status == 200, answer
            vector = answer["data"][0]["embedding"]
            wanted = expected("Hello", "MEAN", normalize=False)
            np.testing.assert_allclose(vector, wanted, atol=1e-4)
        for path, method, body in DESCRIBED.examples():
            if path.endswith(("/embeddings", "/detokenize", "/embed", "/tokenize")):
                status, answer = serving.post(path, {**body, "model": "tiny"})
                assert status == 200, answer
                text = json.dumps(answer).encode()
                DESCRIBED.check_answer(path, method, status, "application/json", text)
        status, answer = serving.post("/v3/embeddings", {"model": "tiny", "input": [1, 99999]})
        assert status == 400
        assert answer["error"]["param"] == "input[1]"
        status, answer = serving.post("/embed", {"inputs": "Hello"})  # it names no model
        assert status == 200, answer
        np.testing.assert_allclose(np.array(answer), [expected("Hello", "MEAN")], atol=1e-4)
        status, answer = serving.post("/v3/embeddings", {"model": "other", "input": "a"})
        assert (status, answer["error"]["code"]) == (404, "model_not_found")
        with serving.request("GET", "/info") as response:
            text = response.read()
            info = json.loads(text)
        assert info["model_type"] == {"embedding": {"pooling": "mean"}}
        assert info["model_id"] == "tiny"
        DESCRIBED.check_answer("/info", "get", 200, "application/json", text)
        with serving.request("GET", "/v3/models") as response:
            assert [each["id"] for each in json.loads(response.read())["data"]] == ["tiny"]
        with serving.request("GET", "/openapi.json") as response:
            assert "/v3/embeddings" in json.loads(response.read())["paths"]
        maps = Path(f"/proc/{serving.pid}/maps")
        if maps.exists():  # the model is in a process of its own
            assert "libopenvino" not in maps.read_text(encoding="utf-8")


def test_a_graph_is_checked_without_loading_it(site: Path) -> None:
    (site / "tiny" / "graph.pbtxt").write_text(graph(pooling="MEAN"), encoding="utf-8")
    assert graphrt("validate", "tiny/graph.pbtxt", cwd=site).returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--tool_parser hermes3", "--tool_parser is not an option of the task embeddings"),
        ("--pooling MAX", "Known here: CLS, LAST, MEAN"),
        ("--plugin_config []", "--plugin_config: must be a JSON object"),
    ],
)
def test_wrong_options_are_exit_code_2(site: Path, words: str, message: str) -> None:
    task = ["--model_name", "tiny", "--model_path", "tiny", "--task", "embeddings"]
    done = graphrt("serve", *task, *words.split(), cwd=site)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_unknown_members_are_warned_of_by_embeddings_and_chats_alike(site: Path) -> None:
    (site / "tiny" / "graph.pbtxt").write_text(graph(pooling="MEAN"), encoding="utf-8")
    entries = [{"name": "demo", "base_path": str(DEMO)}, {"name": "tiny", "base_path": "tiny"}]
    (site / "both.json").write_text(json.dumps({"mediapipe_config_list": entries}))
    with Serving(site, "both.json").wait_until_serving() as serving:
        chat = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
        asked: dict[str, dict[str, Any]] = {
            "/v3/embeddings": {"model": "tiny", "input": "Hello"},
            "/v1/chat/completions": chat,
            "/v3/chat/completions": {**chat, "stream": True},
        }
        for path, body in asked.items():
            with serving.request("POST", path, {**body, "weather": 1}) as response:
                assert response.status == 200
                assert response.getheader("Warning") == '299 graphrt "Unknown member \\"weather\\""'
                response.read()
            with serving.request("POST", path, {**body, "usre": "me"}) as response:
                assert response.status == 400
                response.read()
        _, answer = serving.get("/v3/models")
        assert [(each["task"], each["max_model_len"]) for each in answer["data"]] == [
            ("text_generation", 2048),
            ("embeddings", MAX_TOKENS),
        ]
        for path in ("/livez", "/readyz", "/health", "/ping", "/version"):
            assert serving.get(path)[0] == 200
        with serving.request("GET", "/docs") as response:
            assert b"/docs/viewer.js" in response.read()
        serving.send_signal()
        _, _, log = serving.end()
    assert log.count("the same is not logged again") == 1


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"dimension": 2}, "dimension"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"late_chunking": True}, "late_chunking"),
    ],
)
def test_a_member_that_would_change_nothing_is_refused(members: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as raised:
        parse_embeddings_request({"model": "tiny", "input": "Hello", **members})
    assert raised.value.param == param
    assert parse_embeddings_request({"model": "tiny", "input": "Hello", "user": "me"}).texts.values
