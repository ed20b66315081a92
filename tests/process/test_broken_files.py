"""Truncated model files, as a copy in progress leaves them: each is reported, others are served."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from bench.gguf_file import write_gguf
from bench.random_model import TINY, metadata, weights
from tests.process.http_client import CHAT, HELLO
from tests.process.server_process import DEMO, ServerProcess
from tests.support.checkout import ROOT

Break = Callable[[Path], object]


def half(name: str) -> Break:
    """Truncate a file to its first half."""

    def cut(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return cut


def without(name: str) -> Break:
    return lambda folder: (folder / name).unlink()


def pipe(name: str) -> Break:
    def replace(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return replace


def zeros(name: str) -> Break:
    """Fill a file with zeros: the file system has allocated it, but the content has not arrived."""
    return lambda folder: (folder / name).write_bytes(b"\0" * (folder / name).stat().st_size)


def part_of_gguf(folder: Path) -> None:
    path = folder / "model.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + (16).to_bytes(8, "little") * 2 + b"\x05\0\0\0\0\0\0\0gen")
    graph = folder / "graph.pbtxt"
    graph.write_text(graph.read_text().replace('"./"', '"model.gguf"'))


def gguf_of(tensors: Mapping[str, Any], **values: Any) -> Break:
    """Serve a GGUF file with other tensors (None: without) or values than a whole one has."""

    def write(folder: Path) -> None:
        facts, arrays = {**metadata(TINY), **values}, {**dict(weights(TINY)), **tensors}
        present = {name: array for name, array in arrays.items() if array is not None}
        write_gguf(folder / "model.gguf", facts, present)
        graph = folder / "graph.pbtxt"
        graph.write_text(graph.read_text().replace('"./"', '"model.gguf"'))

    return write


#: How each is broken, and a word of its error.
LANGUAGE_MODELS: Final[dict[str, tuple[Break, str]]] = {
    "weights": (half("openvino_model.bin"), "openvino_model.bin"),
    "layers": (half("openvino_model.xml"), "openvino_model.xml"),
    "no_layers": (zeros("openvino_model.xml"), "openvino_model.xml"),
    "tokenizer": (half("openvino_tokenizer.bin"), "openvino_tokenizer.bin"),
    "no_tokenizer": (without("openvino_tokenizer.xml"), "has no openvino_tokenizer.xml"),
    "sizes": (half("config.json"), "config.json is not JSON, or only a part of it"),
    "defaults": (half("generation_config.json"), "generation_config.json: is not JSON"),
    "graph": (half("graph.pbtxt"), "graph.pbtxt:13:5: parse error"),
    # The library opens these by itself, and would wait for a writer for ever.
    "pipe": (
        pipe("special_tokens_map.json"),
        "special_tokens_map.json cannot be read: it is a pipe",
    ),
    "detokenizer": (pipe("openvino_detokenizer.bin"), "openvino_detokenizer.bin cannot be read"),
    "gguf": (
        part_of_gguf,
        '"model.gguf" is only a part of a GGUF file: it ends',
    ),
    "gguf_tensor": (
        gguf_of({"blk.1.ffn_gate.weight": None}),
        '"model.gguf" lacks the tensor "blk.1.ffn_gate.weight"',
    ),
    "gguf_template": (
        gguf_of({}, **{"tokenizer.chat_template": "{{ bos_token }}\n{% for %}"}),
        '"model.gguf": its chat template does not compile: tokenizer.chat_template:2: ',
    ),
    "gguf_value": (
        gguf_of({}, **{"qwen3.attention.head_count": "two"}),
        '"model.gguf": the value "qwen3.attention.head_count" must be a whole number',
    ),
}
PLAIN_MODELS: Final[dict[str, tuple[Break, str]]] = {
    "plain_weights": (half("1/standardize.bin"), "Incorrect weights in bin file"),
    "plain_layers": (half("1/standardize.xml"), "mismatch"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Serve all of them beside a whole one."""
    place = tmp_path_factory.mktemp("broken")
    for name, (damage, _) in LANGUAGE_MODELS.items():
        shutil.copytree(DEMO, place / name)
        damage(place / name)
    for name, (damage, _) in PLAIN_MODELS.items():
        shutil.copytree(ROOT / "examples/graphs/flowers/models/standardize", place / name)
        damage(place / name)
    graphs = [{"name": "demo", "base_path": str(DEMO)}]
    graphs += [{"name": name, "base_path": name} for name in LANGUAGE_MODELS]
    models = [{"config": {"name": name, "base_path": name}} for name in PLAIN_MODELS]
    config = place / "config.json"
    config.write_text(json.dumps({"mediapipe_config_list": graphs, "model_config_list": models}))
    with ServerProcess(config) as running:
        yield running


@pytest.fixture(scope="module")
def told(server: ServerProcess) -> dict[str, Any]:
    """Return the message of each in ``/v1/config``."""
    statuses = server.client.get("/v1/config").json
    return {name: status["model_version_status"][0]["status"] for name, status in statuses.items()}


BROKEN: Final = {**LANGUAGE_MODELS, **PLAIN_MODELS}


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_model_is_reported_with_its_reason(told: dict[str, Any], name: str) -> None:
    assert told[name]["error_code"] == "FAILED_PRECONDITION"
    assert BROKEN[name][1] in told[name]["error_message"]
    assert "/tmp" not in told[name]["error_message"]


def test_the_whole_model_is_served(server: ServerProcess) -> None:
    assert server.is_ready()
    assert server.client.post(CHAT, messages=HELLO, max_tokens=3).status == 200
    refused = server.client.post(CHAT, model="weights", messages=HELLO)
    assert refused.status == 503
    assert "Traceback" not in "".join(server.log)
