"""Adapters for the demo model, valid and invalid ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

UP = "model.layers.{}.mlp.up_proj"
_TYPES = {"F32": np.float32, "F16": np.float16}


def tensors_of(
    layer: str = UP, *, inputs: int = 256, outputs: int = 768, rank: int = 4, seed: int = 1
) -> dict[str, Any]:
    """Return random tensors for the layer of this name in each of the model's four blocks."""
    random = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for block in range(4):
        name = f"base_model.model.{layer.format(block)}"
        made[f"{name}.lora_A.weight"] = random.normal(0, 0.15, (rank, inputs))
        made[f"{name}.lora_B.weight"] = random.normal(0, 0.15, (outputs, rank))
    return made


def safetensors(tensors: Mapping[str, Any], dtype: str = "F32", **header: Any) -> bytes:
    """Return the content of a file; ``header``: members to add, whatever they are."""
    data = b""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    for name, values in tensors.items():
        part = _bits(values, dtype)
        offsets = [len(data), len(data) + len(part)]
        entries[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": offsets}
        data += part
    text = json.dumps(entries | header).encode()
    return len(text).to_bytes(8, "little") + text + data


def _bits(values: Any, dtype: str) -> bytes:
    if dtype == "BF16":
        return bytes((values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes())
    return bytes(values.astype(_TYPES[dtype]).tobytes())


def write_adapter(path: Path, dtype: str = "F32", **options: Any) -> Path:
    """Write a .safetensors file."""
    path.write_bytes(safetensors(tensors_of(**options), dtype))
    return path


def write_peft(folder: Path, **config: Any) -> Path:
    """Write a folder as PEFT does; ``config``: members to add to its config or to replace in it."""
    folder.mkdir()
    write_adapter(folder / "adapter_model.safetensors")
    said = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", **config}
    (folder / "adapter_config.json").write_text(json.dumps(said))
    return folder
