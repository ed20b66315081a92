"""`ModelCard`: facts about a loaded model that clients ask a server for, such as Ollama's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from calculators.kit.model_json import read_model_json

#: Members of config.json by ggml's keys, with the architecture before them.
_FACTS: Final = {
    "context_length": ("max_position_embeddings", "n_positions", "n_ctx"),
    "embedding_length": ("hidden_size", "n_embd"),
    "block_count": ("num_hidden_layers", "n_layer"),
    "feed_forward_length": ("intermediate_size",),
    "attention.head_count": ("num_attention_heads", "n_head"),
    "attention.head_count_kv": ("num_key_value_heads",),
    "vocab_size": ("vocab_size",),
}
#: The form of weights at the end of a file's name.
_GGUF_FORM: Final = re.compile(r"(?:^|[-._])((?:I?Q[0-9]|B?F16|F32)[A-Z0-9_]*)$", re.IGNORECASE)
#: The longest text among the metadata of a GGUF file that is a fact, in characters.
_LONGEST_FACT: Final = 256
#: The key of the chat template among the metadata; the keys of further templates begin with it.
_TEMPLATE: Final = "tokenizer.chat_template"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """Facts about a model, from its files.

    Attributes:
        architecture: as config.json or the GGUF file names it; "" if unknown.
        format: "gguf" or "openvino".
        quantization: of the weights, such as "Q4_K_M" or "int4"; "" if unknown.
        size: of its files in bytes.
        facts: by ggml's keys, such as ``llama.context_length``; JSON values.
        capabilities: by Ollama's words: completion, tools, thinking, vision, audio, insert,
            embedding.
        template: the text of the chat template; "" if there is none, or clients may not see it.
        defaults: values of requests that leave them out, by Ollama's names.
    """

    architecture: str = ""
    format: str = ""
    quantization: str = ""
    size: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    template: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)


NO_CARD: Final = ModelCard()


def read_model_card(
    path: Path,
    capabilities: tuple[str, ...],
    defaults: Mapping[str, Any] | None = None,
    *,
    shows_template: bool = False,
) -> ModelCard:
    """Read the card of a model; what its files do not say stays empty.

    Args:
        path: a directory, or a GGUF file.
        shows_template: clients may see the chat template.
    """
    read = _read_gguf if path.is_file() else _read_directory
    architecture, quantization, facts, template = read(path)
    if architecture:
        facts = {"general.architecture": architecture, **facts}
    return ModelCard(
        architecture=architecture,
        format="gguf" if path.is_file() else "openvino",
        quantization=quantization,
        size=_size(path),
        facts=facts,
        capabilities=capabilities,
        template=template if shows_template else "",
        defaults=defaults or {},
    )


def _read_gguf(path: Path) -> tuple[str, str, dict[str, Any], str]:
    # Imported here: few models are such files.
    from calculators.kit.checkpoints.gguf import read_gguf_facts
    from graph_runtime import ResourceError

    try:
        found = read_gguf_facts(path)
    except (OSError, ResourceError):
        return "", "", {}, ""
    template = found.get(_TEMPLATE)
    facts = {
        name: value
        for name, value in found.items()
        if not name.startswith(_TEMPLATE)
        and (
            isinstance(value, int | float)
            or (isinstance(value, str) and len(value) < _LONGEST_FACT)
        )
    }
    form = _GGUF_FORM.search(path.stem)
    return (
        str(found.get("general.architecture", "")),
        "" if form is None else form[1].upper(),
        facts,
        template if isinstance(template, str) else "",
    )


def _read_directory(path: Path) -> tuple[str, str, dict[str, Any], str]:
    config = read_model_json(path / "config.json")
    if isinstance(config.get("text_config"), dict):
        config = {**config, **config["text_config"], "model_type": config.get("model_type")}
    architecture = str(config.get("model_type") or "")
    facts: dict[str, Any] = {}
    for key, names in _FACTS.items():
        found = next((config[name] for name in names if type(config.get(name)) is int), None)
        if found is not None:
            facts[f"{architecture or 'model'}.{key}"] = found
    form = read_model_json(path / "openvino_config.json").get("dtype")
    template = read_model_json(path / "tokenizer_config.json").get("chat_template")
    with suppress(OSError, ValueError):
        template = (path / "chat_template.jinja").read_text(encoding="utf-8")
    return (
        architecture,
        form if isinstance(form, str) else "",
        facts,
        template if isinstance(template, str) else "",
    )


def _size(path: Path) -> int:
    try:
        files = [path] if path.is_file() else [each for each in path.iterdir() if each.is_file()]
        return sum(file.stat().st_size for file in files)
    except OSError:
        return 0
