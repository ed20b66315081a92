"""The real exporter on a tiny model of safetensors; skipped where it is not installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.peer_servers import byte_level_tokenizer, write_hugging_face
from bench.random_model import TINY, metadata, weights
from servers.model_store.export import find_exporter
from tests.servers.cli.serving import Serving

exporter = find_exporter()
pytestmark = pytest.mark.skipif(
    exporter is None or "nncf" not in exporter.versions,
    reason="needs optimum-cli with nncf: pip install 'graphrt[export]'",
)


@pytest.mark.parametrize("weight_format", ["int8", "int4", "fp16"])
def test_a_model_of_safetensors_is_exported_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weight_format: str
) -> None:
    monkeypatch.setenv("OVMS_MODEL_REPOSITORY_PATH", str(tmp_path / "models"))
    facts = metadata(TINY)
    write_hugging_face(tmp_path / "tiny", facts, dict(weights(TINY)), byte_level_tokenizer(facts))
    words = ("tiny", "--weight_format", weight_format)
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "good morning"}],
        "max_tokens": 5,
        "ignore_eos": True,
    }
    with Serving(tmp_path, *words, calculators=()).wait_until_serving() as serving:
        with serving.request("POST", "/v3/chat/completions", body) as response:
            answer = json.loads(response.read())
        assert response.status == 200, answer
    assert answer["usage"]["completion_tokens"] == 5
    (place,) = (tmp_path / "models" / "_exported").iterdir()
    assert (place / "openvino_tokenizer.xml").is_file()
    assert "nncf" in json.loads((place / "graphrt_origin.json").read_text())["exporter"]
