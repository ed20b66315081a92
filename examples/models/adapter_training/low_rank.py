"""LoRA in torch: a product of two narrow matrices beside each linear layer."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

RANK = 4
ALPHA = 8
_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class LowRank(nn.Module):
    """A linear layer that trains only ``B @ A``; it starts as the layer itself."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer
        self.lora_A = nn.Parameter(torch.randn(RANK, layer.in_features) / layer.in_features**0.5)
        self.lora_B = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, values: Tensor) -> Tensor:
        learned = values @ self.lora_A.T @ self.lora_B.T
        plain: Tensor = self.layer(values)
        return plain + learned * (ALPHA / RANK)


def add_low_rank(model: nn.Module) -> dict[str, LowRank]:
    """Put a `LowRank` around each linear layer in the decoder; return them by the layer's name."""
    added: dict[str, LowRank] = {}
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in _LAYERS:
            parent, _, own = name.rpartition(".")
            added[name] = LowRank(module)
            setattr(model.get_submodule(parent), own, added[name])
    return added


def save_adapter(layers: dict[str, LowRank], base: str, directory: Path) -> None:
    """Write the files that PEFT writes, with fp16 weights."""
    directory.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    for name, layer in layers.items():
        for part in ("lora_A", "lora_B"):
            values: Tensor = getattr(layer, part)
            tensors[f"base_model.model.{name}.{part}.weight"] = values.detach().half().contiguous()
    save_file(tensors, directory / "adapter_model.safetensors", metadata={"format": "pt"})
    config: dict[str, Any] = {
        "base_model_name_or_path": base,
        "bias": "none",
        "lora_alpha": ALPHA,
        "peft_type": "LORA",
        "r": RANK,
        "target_modules": list(_LAYERS),
        "task_type": "CAUSAL_LM",
    }
    text = json.dumps(config, indent=2) + "\n"
    (directory / "adapter_config.json").write_text(text, encoding="utf-8")
