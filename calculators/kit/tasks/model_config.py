"""The task of a model's directory, as its config.json and modules.json show it.

Hugging Face's libraries write both: transformers the classes of a model in ``architectures``,
sentence-transformers the modules of an embedding model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from calculators.kit.model_json import read_model_json

_CONFIG: Final = "config.json"
_MODULES: Final = "modules.json"
_SAFETENSORS: Final = "*.safetensors"
#: Members of config.json that may have the length of a model in tokens; the first number counts.
LENGTH_NAMES: Final = (
    "max_position_embeddings",
    "n_positions",
    "seq_len",
    "seq_length",
    "n_ctx",
    "sliding_window",
)
#: Bytes; a larger file is not a config.
_LARGEST: Final = 16 << 20


def has_safetensors(directory: Path) -> bool:
    """Return whether a directory holds weights as safetensors, with a config beside them."""
    return (directory / _CONFIG).is_file() and any(directory.glob(_SAFETENSORS))


def is_language_model(directory: Path) -> bool:
    """Return whether a model continues texts, or texts with images, by its config."""
    if (directory / _MODULES).is_file():
        return False
    config = read_model_config(directory)
    return any(
        name.endswith("ForCausalLM")
        or ("vision_config" in config and name.endswith(("ForConditionalGeneration", "ChatModel")))
        for name in architectures(config)
    )


def is_embedding_model(directory: Path) -> bool:
    """Return whether a model turns texts into vectors, by its config and its modules."""
    if is_cross_encoder(directory):
        return False
    if (directory / _MODULES).is_file():
        return True
    config = read_model_config(directory)
    if "vision_config" in config or is_speech_model(directory):
        return False
    return any(name.endswith("Model") for name in architectures(config))


def is_speech_model(directory: Path) -> bool:
    """Return whether a model turns texts into speech, by its config."""
    config = read_model_config(directory)
    names = architectures(config)
    # Kokoro's own config has no class of transformers.
    is_kokoro = "KModel" in names or (not names and {"n_mels", "vocab"} <= config.keys())
    return is_kokoro or any(name.endswith("ForTextToSpeech") for name in names)


def is_speecht5(directory: Path) -> bool:
    """Return whether a speech model is of the SpeechT5 family, which needs a vocoder."""
    return "SpeechT5ForTextToSpeech" in architectures(read_model_config(directory))


def is_cross_encoder(directory: Path) -> bool:
    """Return whether a model gives a pair of texts one number, by its config."""
    return _classes_of(directory) == 1


def is_text_classifier(directory: Path) -> bool:
    """Return whether a model sorts texts into several classes, by its config."""
    return not (directory / _MODULES).is_file() and _classes_of(directory) > 1


def _classes_of(directory: Path) -> int:
    """Return the number of classes of a model that classifies sequences; 0 for other models."""
    config = read_model_config(directory)
    if not any(name.endswith("ForSequenceClassification") for name in architectures(config)):
        return 0
    labels = config.get("id2label")
    # transformers writes the labels of a model unless it has two.
    return len(labels) if isinstance(labels, dict) else 2


def architectures(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the classes of transformers that a config names."""
    names = config.get("architectures")
    return tuple(name for name in names if type(name) is str) if isinstance(names, list) else ()


def read_model_config(directory: Path) -> Mapping[str, Any]:
    """Return the object in config.json; an empty one if there is none that can be read."""
    return read_model_json(directory / _CONFIG, _LARGEST)
