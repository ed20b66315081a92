"""The demo model in torch, with the weights of its OpenVINO file: no checkpoint is stored."""

import re
from pathlib import Path
from typing import Any

import openvino
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

_MODULE = re.compile(r"__module\.(.*?)/")
_WEIGHT = re.compile(r"self\.(.*\.weight)_compressed")
#: The parameter that a nameless constant is, by the operation that uses it.
_ROLES = {"Add": "bias", "Multiply": "weight"}


def base_model(directory: Path) -> Qwen3ForCausalLM:
    """Read the model; its parameters do not learn.

    Raises:
        RuntimeError: the file lacks a weight.
    """
    config = Qwen3Config.from_pretrained(directory)
    model = Qwen3ForCausalLM(config)  # type: ignore[no-untyped-call]
    weights = _weights(directory / "openvino_model.xml")
    wanted = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in wanted.items():
            if name not in weights:
                raise RuntimeError(f"{directory} has no weight {name}")
            parameter.copy_(weights[name].reshape(parameter.shape))
            parameter.requires_grad_(False)
    return model


def _weights(file: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for node in openvino.Core().read_model(file).get_ops():
        if node.get_type_name() == "Constant":
            name = _name_of(node)
            if name:
                found[name] = torch.from_numpy(node.data.astype("float32"))
    return found


def _name_of(constant: Any) -> str:
    """Return the name of the parameter in torch; "" if the constant is not a parameter."""
    named = _WEIGHT.fullmatch(constant.get_friendly_name())
    if named:
        return named[1]
    user = _user_of(constant)
    if user.get_type_name() == "Convert":
        user = _user_of(user)
    module = _MODULE.match(user.get_friendly_name())
    role = _ROLES.get(user.get_type_name(), "")
    return f"{module[1]}.{role}" if module and role else ""


def _user_of(node: Any) -> Any:
    return next(iter(node.output(0).get_target_inputs())).get_node()
