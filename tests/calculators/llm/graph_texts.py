"""Texts of graphs with LLM nodes, in the forms that exist in the field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graph_runtime import (
    REGISTRY,
    GraphResources,
    ResourceSettings,
    ValidatedGraph,
    make_resources,
    parse_graph_text,
    validate_graph,
)

#: From OpenVINO Model Server's quickstart.
QUICKSTART = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"

node: {
  name: "LLMExecutor"
  calculator: "HttpLLMCalculator"
  input_stream: "LOOPBACK:loopback"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  output_stream: "LOOPBACK:loopback"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  input_stream_info: {
    tag_index: 'LOOPBACK:0',
    back_edge: true
  }
  node_options: {
      [type.googleapis.com / mediapipe.LLMCalculatorOptions]: {
          models_path: "./"
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


def loop_with(options: str, output: str = "output") -> str:
    """Return a graph of one model with these options, whose answers are the stream ``output``."""
    stream = '  output_stream: "HTTP_RESPONSE_PAYLOAD:{}"'.format
    text = QUICKSTART.replace(stream("output"), stream(output))
    return text.replace('models_path: "./"', options)


#: From its demos, with a comma after an option.
DEMO_GRAPH = loop_with('models_path: "./",\n          cache_size: 1')

#: Written by its ``--pull``.
PULLED = """\
# File created with: ovms --pull --source_model "OpenVINO/some-model" --task text_generation
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
            max_num_seqs:256,
            device: "CPU",
            models_path: "./",
            plugin_config: '{"KV_CACHE_PRECISION":"u8","NUM_STREAMS":"1"}',
            enable_prefix_caching: true,
            cache_size: 0,
            pipeline_type: LM_CB,
            max_num_batched_tokens: 512,
            tool_parser: "hermes3",
            reasoning_parser: "qwen3",
            enable_tool_guided_generation: true,
            dynamic_split_fuse: false,
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

#: Written by hand for a newer version, everything in brackets and without spaces.
COMPACT = QUICKSTART.replace("type.googleapis.com / mediapipe", "type.googleapis.com/mediapipe")

GRAPHS = {
    "quickstart": QUICKSTART,
    "demo": DEMO_GRAPH,
    "pulled": PULLED,
    "compact": COMPACT,
}


def with_options(options: str) -> str:
    """Return the quickstart's graph with these options."""
    return QUICKSTART.replace('models_path: "./"', options)


def two_nodes(first: str = "first", second: str = "second") -> str:
    """Return a graph with two LLM nodes, each with streams of its own."""
    node = QUICKSTART[QUICKSTART.index("node:") :]

    def named(name: str, number: int) -> str:
        return (
            node.replace('"LLMExecutor"', f'"{name}"')
            .replace(":loopback", f":loopback{number}")
            .replace(":input", f":input{number}")
            .replace(":output", f":output{number}")
        )

    return (
        'input_stream: "HTTP_REQUEST_PAYLOAD:input1"\ninput_stream: "SECOND:input2"\n'
        'output_stream: "HTTP_RESPONSE_PAYLOAD:output1"\noutput_stream: "SECOND:output2"\n'
        + named(first, 1)
        + named(second, 2)
    )


def plan_of(text: str) -> ValidatedGraph:
    return validate_graph(parse_graph_text(text), registry=REGISTRY)


async def resources_of(text: str, directory: Path, **settings: Any) -> GraphResources:
    return await make_resources(plan_of(text), ResourceSettings(directory, **settings), REGISTRY)
