"""An embedding model made by hand: a few KB of OpenVINO's operations, and the demo's tokenizer.

The vector of a token is ``sin(id * f)`` for fixed frequencies f, so the output can be computed
here: `expected` is the model in NumPy.
"""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai
from numpy.typing import NDArray
from openvino import opset13 as op

from tests.support.checkout import ROOT

SIZE = 8
MAX_TOKENS = 32
_DEMO = ROOT / "examples" / "models" / "demo"
_FREQUENCIES = np.linspace(0.01, 1.0, SIZE, dtype=np.float32)

#: The text that OpenVINO Model Server's ``--pull`` writes.
GRAPH = """\
# File created with: OpenVINO Model Server 2026.2
# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO

input_stream: "REQUEST_PAYLOAD:input"
output_stream: "RESPONSE_PAYLOAD:output"
node {
    name: "EmbeddingsExecutor"
    calculator: "EmbeddingsCalculatorOV"
    input_side_packet: "EMBEDDINGS_NODE_RESOURCES:embeddings_servable"
    input_stream: "REQUEST_PAYLOAD:input"
    output_stream: "RESPONSE_PAYLOAD:output"
    node_options: {
        [type.googleapis.com / mediapipe.EmbeddingsCalculatorOVOptions]: {
            models_path: "./",
            normalize_embeddings: %(normalize)s,
            truncate: %(truncate)s,
            %(pooling)s
            target_device: "CPU",
            plugin_config: '{"NUM_STREAMS":"1"}',
        }
    }
}
"""


def graph(*, normalize: str = "true", truncate: str = "false", pooling: str = "") -> str:
    """Return `GRAPH` with these options; ``pooling``: a word of the enum."""
    pooling = f"pooling: {pooling}," if pooling else ""
    return GRAPH % {"normalize": normalize, "truncate": truncate, "pooling": pooling}


def make_model(directory: Path, text: str = "", pooling: str = "", added: float = 0.0) -> Path:
    """Write the model's files, with a graph and a 1_Pooling/config.json if they are given.

    ``added``: added to the number of each token.
    """
    directory.mkdir(parents=True, exist_ok=True)
    ids = _input("input_ids")
    mask = _input("attention_mask")
    token_types = _input("token_type_ids")
    used = op.add(op.convert(ids, "f32"), op.convert(token_types, "f32"))
    last_axis = op.constant(np.array([-1], np.int64))
    used = op.add(used, op.constant(np.float32(added)))
    frequencies = op.constant(_FREQUENCIES.reshape(1, 1, SIZE))
    hidden = op.sin(op.multiply(op.unsqueeze(used, last_axis), frequencies))
    # Values in the padding must not count, so they are large.
    padding = op.subtract(op.constant(np.float32(1)), op.convert(mask, "f32"))
    shown = op.add(
        hidden, op.multiply(op.unsqueeze(padding, last_axis), op.constant(np.float32(1e6)))
    )
    result = op.result(shown)
    result.output(0).set_names({"last_hidden_state"})
    model = ov.Model([result], [ids, mask, token_types], "embedder")
    ov.save_model(model, directory / "openvino_model.xml", compress_to_fp16=False)
    config = {"model_type": "bert", "max_position_embeddings": MAX_TOKENS}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for file in _DEMO.glob("*token*"):
        shutil.copy(file, directory)
    if text:
        (directory / "graph.pbtxt").write_text(text, encoding="utf-8")
    if pooling:
        (directory / "1_Pooling").mkdir(exist_ok=True)
        modes = json.dumps({f"pooling_mode_{pooling}": True, "pooling_mode_max_tokens": False})
        (directory / "1_Pooling" / "config.json").write_text(modes, encoding="utf-8")
    return directory


def tokens(text: str) -> list[int]:
    """The tokens of a text, by the tokenizer itself."""
    encoded = _tokenizer().encode(text, add_special_tokens=True)
    return [int(each) for each in encoded.input_ids.data.reshape(-1)]


@functools.cache
def _tokenizer() -> genai.Tokenizer:
    return genai.Tokenizer(str(_DEMO))


def expected(text: str, pooling: str, *, normalize: bool = True) -> NDArray[np.float32]:
    """Return the embedding of a text."""
    return vector(tokens(text), pooling, normalize=normalize)


def _input(name: str) -> Any:
    parameter = op.parameter([-1, -1], np.int64, name)
    parameter.output(0).set_names({name})
    return parameter


def write_prompts(directory: Path, prompts: dict[str, str], default: str | None = None) -> None:
    """Write a config_sentence_transformers.json."""
    config = {"prompts": prompts, "default_prompt_name": default}
    file = directory / "config_sentence_transformers.json"
    file.write_text(json.dumps(config), encoding="utf-8")


def vector(ids: list[int], pooling: str, *, normalize: bool = True) -> NDArray[np.float32]:
    """Return the embedding of token ids."""
    hidden = np.sin(np.array(ids, np.float32)[:, np.newaxis] * _FREQUENCIES)
    found = {"CLS": hidden[0], "LAST": hidden[-1], "MEAN": hidden.mean(axis=0)}[pooling]
    length = np.linalg.norm(found) if normalize else 1.0
    return np.asarray(found / length, np.float32)
