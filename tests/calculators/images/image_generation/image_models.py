"""Tiny diffusion models: what `examples.models.diffusion_making` wrote, with graphs around them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import numpy as np

#: ``sd`` is whole; ``lcm`` has the files in which it differs.
MODELS: Final = Path(__file__).parent / "models"
#: The models' own size of images.
SIDE: Final = 64

#: The text that OpenVINO Model Server's ``--pull`` writes.
GRAPH: Final = """\
# File created with: OpenVINO Model Server 2026.2
# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO

input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"

node: {
  name: "ImageGenExecutor"
  calculator: "ImageGenCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_side_packet: "IMAGE_GEN_NODE_RESOURCES:pipes"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  node_options: {
      [type.googleapis.com / mediapipe.ImageGenCalculatorOptions]: {
          models_path: "./"
          %s
      }
  }
}
"""

#: A graph that draws what is said on its stream.
NODE_GRAPH: Final = """\
input_stream: "prompt"
output_stream: "image"
node {
  name: "artist"
  calculator: "ImageGenerationCalculator"
  input_side_packet: "IMAGE_GEN_NODE_RESOURCES:pipes"
  input_stream: "prompt"
  output_stream: "image"
  node_options {
    [type.googleapis.com/mediapipe.ImageGenCalculatorOptions] {
      models_path: "./"
      default_num_inference_steps: 2
    }
  }
}
"""


def graph(options: str = "default_num_inference_steps: 2") -> str:
    """Return `GRAPH` with further options."""
    return GRAPH % options


def make_model(directory: Path, kind: str = "sd", text: str = "") -> Path:
    """Write the files of a model. ``text``: its graph, if it has one."""
    shutil.copytree(MODELS / "sd", directory, dirs_exist_ok=True)
    if kind != "sd":
        shutil.copytree(MODELS / kind, directory, dirs_exist_ok=True)
    if text:
        (directory / "graph.pbtxt").write_text(text, encoding="utf-8")
    return directory


def write_lora(file: Path, seed: int, rank: int = 2) -> Path:
    """Write an adapter of the denoiser with large random weights, as Stable Diffusion's tools do.

    It changes the queries of the attention in the middle of the denoiser.
    """
    config = json.loads((MODELS / "sd" / "unet" / "config.json").read_bytes())
    width = config["block_out_channels"][-1]
    random = np.random.default_rng(seed)
    layer = "lora_unet_mid_block_attentions_0_transformer_blocks_0_attn1_to_q"
    write_safetensors(
        file,
        {
            f"{layer}.lora_down.weight": random.normal(size=(rank, width)),
            f"{layer}.lora_up.weight": random.normal(size=(width, rank)),
        },
    )
    return file


def write_safetensors(file: Path, tensors: dict[str, Any]) -> None:
    """Write 32-bit tensors in the form of safetensors."""
    header: dict[str, Any] = {}
    data = b""
    for name, values in tensors.items():
        content = np.asarray(values, "<f4").tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(np.shape(values)),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)
