"""The rerank endpoints of a real server over HTTP, and the command line of the task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from calculators.kit.tasks import task_of_model
from calculators.kit.tasks.model_config import is_cross_encoder, is_embedding_model
from tests.calculators.text.rerank.tiny_rerankers import (
    DOCUMENTS,
    LOGITS,
    MAX_TOKENS,
    ORDER,
    QUERY,
    graph,
    make_bert,
    make_decoder,
    make_roberta,
    sigmoid,
)
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving, make_site
from tests.servers.fronts.openapi.described import Described

DESCRIBED: Final = Described()
EXPECTED: Final = [(place, pytest.approx(sigmoid(LOGITS[place]), abs=1e-6)) for place in ORDER]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    make_site(tmp_path)
    make_bert(tmp_path / "tiny")
    return tmp_path


def test_a_cross_encoder_is_recognized_and_served_on_all_paths(site: Path) -> None:
    with Serving(site, "tiny", is_forked=False).wait_until_serving() as serving:
        log = "".join(serving.log)
        assert "tiny: OpenVINO model, served as rerank" in log
        body: dict[str, Any] = {"model": "tiny", "query": QUERY, "documents": DOCUMENTS}
        for path in ("/v3/rerank", "/v1/rerank", "/v3/v1/rerank", "/v2/rerank", "/rerank"):
            status, answer = serving.post(path, body)
            assert status == 200, answer
            found = [(each["index"], each["relevance_score"]) for each in answer["results"]]
            assert found == EXPECTED
        # TEI's clients name no model.
        status, answer = serving.post("/rerank", {"query": QUERY, "texts": DOCUMENTS})
        assert (status, [(each["index"], each["score"]) for each in answer]) == (200, EXPECTED)
        status, answer = serving.post("/score", {"text_1": QUERY, "text_2": DOCUMENTS})
        assert (status, answer["model"]) == (200, "tiny")
        for path, method, example in DESCRIBED.examples():
            if path.endswith(("/rerank", "/score")):
                status, answer = serving.post(path, {**example, "model": "tiny"})
                assert status == 200, answer
                text = json.dumps(answer).encode()
                DESCRIBED.check_answer(path, method, status, "application/json", text)
        for members in ({"top_k": 1}, {"return_documents": True}):
            _, answer = serving.post("/v3/rerank", {**body, **members})
            text = json.dumps(answer).encode()
            DESCRIBED.check_answer("/v3/rerank", "post", 200, "application/json", text)
        status, answer = serving.post("/v3/rerank", {**body, "documents": []})
        assert status == 400
        assert answer["error"]["message"] == "documents array should not be empty"
        assert answer["error"]["param"] == "documents"
        _, info = serving.get("/info")
        assert (info["model_type"], info["max_input_length"]) == ({"reranker": {}}, MAX_TOKENS)
        _, models = serving.get("/v3/models")
        assert [(each["task"], each["max_model_len"]) for each in models["data"]] == [
            ("rerank", MAX_TOKENS)
        ]
        maps = Path(f"/proc/{serving.pid}/maps")
        if maps.exists():  # the model is in a process of its own
            assert "libopenvino" not in maps.read_text(encoding="utf-8")


def test_hostile_bodies_are_refused_and_the_next_request_is_answered(site: Path) -> None:
    good = {"model": "tiny", "query": "cat", "documents": ["cat"]}
    with Serving(site, "tiny", "--task", "rerank").wait_until_serving() as serving:
        hostile: tuple[dict[str, Any], ...] = (
            {"documents": []},
            {"documents": ["x" * 10_000_000]},
            {"documents": ["x" * 2_000_000]},
            {"documents": [[]]},
            {"documents": [{}]},
            {"documents": {"0": "a"}},
            {"documents": ["a"] * 10_001},
            {"query": []},
            {"query": "x" * 10_000_000},
            {"top_n": 10**60},
            {"top_n": -1},
            {"rank_fields": {}},
        )
        for members in hostile:
            status, answer = serving.post("/v3/rerank", {**good, **members})
            assert status in (400, 413), members.keys()
            if status == 400:
                assert answer["error"]["param"].partition("[")[0] in members
            status, answer = serving.post("/v3/rerank", good)
            assert status == 200, answer


def test_a_graph_is_checked_without_loading_it(site: Path) -> None:
    (site / "tiny" / "graph.pbtxt").write_text(graph(), encoding="utf-8")
    assert graphrt("validate", "tiny/graph.pbtxt", cwd=site).returncode == 0


def test_the_flags_of_openvino_model_server_become_options_of_the_graph(site: Path) -> None:
    words = ["--model_name", "m", "--model_path", "tiny", "--task", "rerank"]
    words += ["--max_allowed_chunks", "2", "--plugin_config", '{"NUM_STREAMS": 1}']
    with Serving(site, *words).wait_until_serving() as serving:
        body = {"model": "m", "query": "cat", "documents": ["cat", "dog", "bird"]}
        status, answer = serving.post("/v3/rerank", body)
        assert status == 400
        assert "Number of documents exceeds max_allowed_chunks" in answer["error"]["message"]
        assert serving.post("/v3/rerank", {**body, "documents": ["cat"]})[0] == 200


def test_a_graph_with_the_flags_is_written(site: Path) -> None:
    words = ["--model_path", "tiny", "--max_allowed_chunks", "7", "--target_device", "CPU"]
    assert graphrt("configure", "--task", "rerank", *words, cwd=site).returncode == 0
    written = (site / "tiny" / "graph.pbtxt").read_text(encoding="utf-8")
    assert "max_allowed_chunks: 7\n" in written
    assert 'target_device: "CPU"' in written
    assert graphrt("validate", "tiny/graph.pbtxt", cwd=site).returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--pooling CLS", "--pooling is not an option of the task rerank"),
        ("--max_allowed_chunks 0", "--max_allowed_chunks"),
        ("--plugin_config []", "--plugin_config: must be a JSON object"),
    ],
)
def test_wrong_options_are_exit_code_2(site: Path, words: str, message: str) -> None:
    task = ["--model_name", "tiny", "--model_path", "tiny", "--task", "rerank"]
    done = graphrt("serve", *task, *words.split(), cwd=site)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_model_of_one_label_is_a_reranker(tmp_path: Path) -> None:
    for make in (make_bert, make_roberta):
        directory = make(tmp_path / make.__name__)
        found = task_of_model(directory)
        assert found is not None
        assert found.name == "rerank"
        (directory / "modules.json").write_text("[]", encoding="utf-8")
        assert is_cross_encoder(directory)
        assert not is_embedding_model(directory)
    assert not is_cross_encoder(make_bert(tmp_path / "two", labels=2))
    assert not is_cross_encoder(make_decoder(tmp_path / "decoder"))
