"""The length of a model in tokens, as its ``config.json`` or the header of its file has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from calculators.kit.checkpoints.gguf import read_gguf_facts
from calculators.kit.tasks.model_config import LENGTH_NAMES
from calculators.llm.model_files.model_files import read_json_object
from graph_runtime import ResourceError

#: The members with the text model's configuration in a model of text and images.
_TEXT_PARTS: Final = ("text_config", "llm_config", "language_config")


def model_length(config: dict[str, Any]) -> int | None:
    """Return the most tokens of prompt and answer together, by a parsed ``config.json``.

    None if it has no such number. Source: OpenVINO Model Server ``llm/servable_initializer.cpp``,
    which ignores the text part of models that read images.
    """
    texts = (config.get(name) for name in _TEXT_PARTS)
    for part in (config, *(text for text in texts if isinstance(text, dict))):
        for name in LENGTH_NAMES:
            value = part.get(name)
            if type(value) is int and 0 <= value < 2**32:
                return value
    return None


def read_model_length(model: Path) -> int | None:
    """Return the `model_length` of a directory or GGUF file; None also if it cannot be read."""
    if model.is_file():
        try:
            facts = read_gguf_facts(model)
        except (OSError, ResourceError):
            return None
        length = facts.get(f"{facts.get('general.architecture')}.context_length")
        return length if type(length) is int and length > 0 else None
    return model_length(read_json_object(model / "config.json"))
