"""The task of a model's directory, as its config.json, modules.json and name show it.

Hugging Face's libraries write both files: transformers the classes of a model in ``architectures``,
sentence-transformers the modules of a model of embeddings or of a reranker. The rules agree with
OpenVINO Model Server's (``src/default_task_detector.cpp``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from calculators.kit.model_json import read_json_value, read_model_json

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
#: Classes of language models, of which models of embeddings and rerankers are made too. Without
#: modules.json only the name tells them apart.
_OF_SEVERAL_TASKS: Final = frozenset({"Qwen3ForCausalLM"})
_RANKS: Final = re.compile("re-?rank", re.IGNORECASE)
_EMBEDS: Final = re.compile("embed", re.IGNORECASE)
#: Classes whose names end as those of models of embeddings do.
_OF_IMAGES: Final = frozenset({"CLIPTextModel", "InternVLChatModel", "UNet2DConditionModel"})
_SPEECH_RECOGNIZERS: Final = frozenset(
    {"WhisperForConditionalGeneration", "Qwen3ASRForConditionalGeneration"}
)
#: Bytes; a larger file is not a config.
_LARGEST: Final = 16 << 20


def has_safetensors(directory: Path) -> bool:
    """Return whether a directory holds weights as safetensors, with a config beside them."""
    return (directory / _CONFIG).is_file() and any(directory.glob(_SAFETENSORS))


def is_language_model(directory: Path) -> bool:
    """Return whether a model continues texts, or texts with images, by its config."""
    if (directory / _MODULES).is_file() or is_cross_encoder(directory):
        return False
    return continues_texts(directory) and not is_embedding_model(directory)


def continues_texts(directory: Path) -> bool:
    """Return whether a model's class continues texts, whatever its task is."""
    config = read_model_config(directory)
    return not _is_about_sound(config) and any(
        name.endswith("ForCausalLM")
        or ("vision_config" in config and name.endswith(("ForConditionalGeneration", "ChatModel")))
        for name in architectures(config)
    )


def is_embedding_model(directory: Path) -> bool:
    """Return whether a model turns texts into vectors, by its config, modules and name."""
    if is_cross_encoder(directory):
        return False
    if (directory / _MODULES).is_file():
        return True
    config = read_model_config(directory)
    if "vision_config" in config or _is_about_sound(config):
        return False
    names = architectures(config)
    return any(name.endswith("Model") and name not in _OF_IMAGES for name in names) or _is_called(
        directory, _EMBEDS
    )


def _is_called(directory: Path, words: re.Pattern[str]) -> bool:
    """Return whether a model of a class of several tasks has one of the words in its name."""
    if (directory / _MODULES).is_file() or not words.search(directory.absolute().name):
        return False
    return not _OF_SEVERAL_TASKS.isdisjoint(architectures(read_model_config(directory)))


def is_speech_recognizer(directory: Path) -> bool:
    """Return whether a model turns speech into text, by its config."""
    return _recognizes_speech(read_model_config(directory))


def _recognizes_speech(config: Mapping[str, Any]) -> bool:
    return any(
        name in _SPEECH_RECOGNIZERS or name.startswith("SeamlessM4T")
        for name in architectures(config)
    )


def is_speech_model(directory: Path) -> bool:
    """Return whether a model turns texts into speech, by its config."""
    return _speaks(read_model_config(directory))


def _speaks(config: Mapping[str, Any]) -> bool:
    names = architectures(config)
    # Kokoro's own config has no class of transformers.
    is_kokoro = "KModel" in names or (not names and "n_mels" in config)
    return is_kokoro or any(
        name.endswith("ForTextToSpeech") or name.startswith("ParlerTTS") for name in names
    )


def _is_about_sound(config: Mapping[str, Any]) -> bool:
    return _recognizes_speech(config) or _speaks(config)


def find_piper_voice(directory: Path) -> Path | None:
    """Return the ONNX file of a directory's only voice of Piper; None if there are none or several.

    Piper writes the settings of ``NAME.onnx`` into ``NAME.onnx.json``.
    """
    found = [each for each in directory.glob("*.onnx") if Path(f"{each}.json").is_file()]
    return found[0] if len(found) == 1 else None


def is_speecht5(directory: Path) -> bool:
    """Return whether a speech model is of the SpeechT5 family, which needs a vocoder."""
    return "SpeechT5ForTextToSpeech" in architectures(read_model_config(directory))


def is_cross_encoder(directory: Path) -> bool:
    """Return whether a model gives a pair of texts one number, by its config, modules and name."""
    if _classes_of(directory) == 1 or _is_called(directory, _RANKS):
        return True
    modules = read_json_value(directory / _MODULES, _LARGEST)
    kinds = [
        str(module.get("type"))
        for module in (modules if isinstance(modules, list) else ())
        if isinstance(module, dict)
    ]
    return any("LogitScore" in kind or "CrossEncoder" in kind for kind in kinds)


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
