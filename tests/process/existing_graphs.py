"""Graphs and configurations that users of OpenVINO Model Server have."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Final

from tests.calculators.llm.graph_texts import DEMO_GRAPH
from tests.process.server_process import DEMO

#: Written by hand in its demos: commas, colons, single quotes, a space in the type's name.
BY_HAND: Final = DEMO_GRAPH.replace('"./"', '"%s"')

#: Written by its export tools: the queue's comment, execution contexts, every option.
EXPORTED: Final = """\
# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node: {
    name: "LLMExecutor"
    calculator: "HttpLLMCalculator"
    input_stream: "LOOPBACK:loopback"
    input_stream: "HTTP_REQUEST_PAYLOAD:input"
    input_side_packet: "LLM_NODE_RESOURCES:llm"
    input_side_packet: "LLM_NODE_EXECUTION_CONTEXTS:llm_ctx"
    output_stream: "LOOPBACK:loopback"
    output_stream: "HTTP_RESPONSE_PAYLOAD:output"
    input_stream_info: {
        tag_index: 'LOOPBACK:0',
        back_edge: true
    }
    node_options: {
        [type.googleapis.com / mediapipe.LLMCalculatorOptions]: {
            max_num_seqs: 256,
            device: "CPU",
            models_path: "./",
            plugin_config: '{"KV_CACHE_PRECISION": "u8", "NUM_STREAMS": "1"}',
            enable_prefix_caching: true,
            cache_size: 1,
            max_num_batched_tokens: 512,
            dynamic_split_fuse: true,
            pipeline_type: LM_CB,
            tool_parser: "hermes3",
            reasoning_parser: "qwen3",
            enable_tool_guided_generation: false
        }
    }
    input_stream_handler {
        input_stream_handler: "SyncSetInputStreamHandler",
        options {
            [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
                sync_set {
                    tag_index: "LOOPBACK:0"
                }
            }
        }
    }
}
"""

_LLAMA: Final = "meta-llama/Meta-Llama-3-8B-Instruct"
_EXPORTED: Final = "OpenVINO/Qwen3-8B-int4-cw-ov"
_OF_A_MODEL: Final = "of-a-model"

#: Names in the configuration of `make_site`.
NAMES: Final = (_LLAMA, _EXPORTED, _OF_A_MODEL)


def make_site(folder: Path) -> Path:
    """Make a directory with models and the config.json that lists them; return its path."""
    # A relative base path that is not the name.
    make_model(folder / "Meta-Llama-3-8B-Instruct", BY_HAND % "./")
    # The name is the base path, in two levels, as export_model.py lays it out.
    make_model(folder / _EXPORTED, EXPORTED)
    # An absolute base path with a graph under another name, and the model elsewhere.
    model = make_model(folder / "weights")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "my_graph.pbtxt").write_text(BY_HAND % model)
    config = folder / "config.json"
    graphs = [
        {"name": _LLAMA, "base_path": "Meta-Llama-3-8B-Instruct"},
        {"name": _EXPORTED},
    ]
    # Newer configurations list graphs among the models.
    of_a_model = {
        "name": _OF_A_MODEL,
        "base_path": str(elsewhere),
        "graph_path": "my_graph.pbtxt",
    }
    models = [{"config": of_a_model}]
    config.write_text(json.dumps({"model_config_list": models, "mediapipe_config_list": graphs}))
    return config


def make_model(folder: Path, graph: str = "") -> Path:
    """Make the demo model with another graph. Links suffice: the files are only read."""
    folder.mkdir(parents=True)
    for file in DEMO.iterdir():
        if file.is_file() and file.suffix != ".pbtxt":
            try:
                os.link(file, folder / file.name)
            except OSError:
                shutil.copy(file, folder)
    if graph:
        (folder / "graph.pbtxt").write_text(graph)
    return folder
