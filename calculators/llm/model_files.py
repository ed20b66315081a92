"""The files of a model: which a directory must have, and what they say of length and cache."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from calculators.kit.checkpoints.gguf import GgufFile, read_gguf_facts
from calculators.kit.examples import find_path
from calculators.kit.tasks.model_config import LENGTH_NAMES
from graph_runtime import ResourceError
from graphrt_base.regular_file import MODEL_FILE_BYTES, read_regular_file

_IR: Final = "optimum-cli export openvino makes it"
_TOKENIZER: Final = (
    (
        "openvino_tokenizer.xml",
        "the tokenizer",
        "convert_tokenizer --with-detokenizer makes it",
    ),
    (
        "openvino_detokenizer.xml",
        "the detokenizer",
        "convert_tokenizer --with-detokenizer makes it",
    ),
)
#: Files, the purpose of each, and the tool that makes it.
TEXT_FILES: Final = (
    ("openvino_model.xml", "the model", _IR),
    ("openvino_model.bin", "the model's weights", _IR),
    *_TOKENIZER,
)
VISION_FILES: Final = (
    ("openvino_language_model.xml", "the language model", _IR),
    ("openvino_language_model.bin", "the language model's weights", _IR),
    ("openvino_text_embeddings_model.xml", "the embedding of text", _IR),
    ("openvino_text_embeddings_model.bin", "the embedding of text's weights", _IR),
    ("openvino_vision_embeddings_model.xml", "the embedding of images", _IR),
    ("openvino_vision_embeddings_model.bin", "the embedding of images' weights", _IR),
    *_TOKENIZER,
)
#: Further parts of models that take images, by the ``model_type`` of their ``config.json``.
_FURTHER_MODELS: Final[Mapping[object, tuple[str, ...]]] = {
    "minicpmv": ("resampler",),
    "phi3_v": ("vision_projection",),
    "phi4mm": ("vision_projection",),
    "qwen2_vl": ("vision_embeddings_merger",),
    "qwen2_5_vl": ("vision_embeddings_merger",),
    "qwen3_vl": ("vision_embeddings_merger", "vision_embeddings_pos"),
    "qwen3_omni": ("vision_embeddings_pos",),
    "qwen3_omni_moe": ("vision_embeddings_pos",),
    "llava_next_video": ("multi_modal_projector", "vision_resampler"),
}
#: The kinds of models that take videos in openvino-genai 2026.4; its others refuse them.
_OF_VIDEOS: Final = frozenset(
    {
        *("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen3_5_moe", "qwen3_omni"),
        *("qwen3_omni_moe", "llava_next_video", "videochat_flash_qwen", "gemma4"),
        *("gemma4_unified", "muse_glimmer"),
    }
)
#: The parts of models that speak.
_SPEAKING: Final = (
    "talker",
    "talker_text_embeddings",
    "talker_projections",
    "code_predictor",
    "code2wav",
)
_JSON_FILES: Final = ("config.json", "tokenizer_config.json")


def find_model(models_path: str, directory: Path, field: str = "models_path") -> Path:
    """Find a model; return its directory or GGUF file, absolute.

    Args:
        models_path: absolute, or relative to ``directory``, the graph's.
        field: the option that it comes from, for errors.

    Raises:
        ResourceError: the model or one of its files is missing, or a file is empty or broken.
    """
    # Links are not resolved: one may be how models are switched.
    path = find_path(models_path, directory)
    if not path.exists():
        raise ResourceError(
            f'{field}: "{models_path}" does not exist; it is relative to the directory of the '
            "graph, or absolute"
        )
    if path.is_file() and path.suffix != ".gguf":
        raise ResourceError(
            f'{field}: "{models_path}" is a file and does not end in .gguf; give the directory of '
            "an OpenVINO model, or a GGUF file"
        )
    if not path.is_file() and not path.is_dir():
        raise ResourceError(f'{field}: "{models_path}" is neither a directory nor a regular file')
    if path.is_dir():
        _check_files(path, f'{field}: "{models_path}"')
    return path


def read_json_object(file: Path) -> dict[str, Any]:
    """Read a JSON object; {} where the file is missing, unreadable or something else."""
    try:
        content = json.loads(read_regular_file(file, MODEL_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def sees_images(model: Path) -> bool:
    """Return True if the model takes text and images.

    Decided as in OpenVINO Model Server (``llm/servable_initializer.cpp``): by the embeddings.
    """
    return any(
        (model / f"openvino_{kind}_embeddings_model.xml").is_file() for kind in ("text", "vision")
    )


def takes_videos(model: Path) -> bool:
    """Return True if the model takes videos too."""
    return read_json_object(model / "config.json").get("model_type") in _OF_VIDEOS


def hears(model: Path) -> bool:
    """Return True if the model takes sound too."""
    return (model / "openvino_audio_encoder_model.xml").is_file()


def speaks(model: Path) -> bool:
    """Return True if the model answers with sound too.

    Decided as in OpenVINO Model Server: by the network that speaks.
    """
    return (model / "openvino_talker_model.xml").is_file()


def read_voices(model: Path) -> tuple[str, ...]:
    """Return the names of the voices of a model that speaks, the default one first."""
    talker = read_json_object(model / "config.json").get("talker_config")
    voices = talker.get("speaker_id") if isinstance(talker, dict) else None
    # openvino-genai (2026.4) sorts them, and takes the first where none is asked for.
    return tuple(sorted(voices)) if isinstance(voices, dict) else ()


def _needed(path: Path) -> Sequence[tuple[str, str, str]]:
    if not sees_images(path):
        return TEXT_FILES
    # A broken config.json is reported by `_check_files`.
    kind = read_json_object(path / "config.json").get("model_type")
    further = _FURTHER_MODELS.get(kind, ()) if isinstance(kind, str) else ()
    if hears(path):
        further += ("audio_encoder",)
    if speaks(path):
        further += _SPEAKING
    names = [f"openvino_{name}_model{end}" for name in further for end in (".xml", ".bin")]
    return (*VISION_FILES, *((name, f"a part of {kind} models", _IR) for name in names))


def _check_files(path: Path, shown: str) -> None:
    """Check that all files are there: the library's own errors do not name the missing one."""
    for name, purpose, source in _needed(path):
        file = path / name
        if not file.is_file():
            raise ResourceError(f"{shown} has no {name} ({purpose}); {source}")
        if file.stat().st_size == 0:
            raise ResourceError(f"{shown}: {name} is empty")
    for name in _JSON_FILES:
        # The library's own errors do not name the file.
        try:
            json.loads(read_regular_file(path / name, MODEL_FILE_BYTES))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ResourceError(f"{shown}: {name} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise ResourceError(
                f"{shown}: {name} is not JSON, or only a part of it: {error}"
            ) from None


#: The members with the text model's configuration in a model of text and images.
_TEXT_PARTS: Final = ("text_config", "llm_config", "language_config")
#: The member with that of a model that speaks, which has one of its own for that.
_THINKER: Final = "thinker_config"


def model_length(config: Mapping[str, Any]) -> int | None:
    """Return the most tokens of prompt and answer together, by a parsed ``config.json``.

    None if it has no such number. Source: OpenVINO Model Server ``llm/servable_initializer.cpp``,
    which ignores the text part of models that read images.
    """
    thinker = config.get(_THINKER)
    if isinstance(thinker, dict):
        config = thinker
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


#: Scale and zero point of 8-bit numbers, two float32.
_SCALE_BYTES: Final = 8
#: Tokens of a block, which share the scales of a channel of keys.
_BLOCK_TOKENS: Final = 32
#: Bytes of a number that is not quantized.
_PLAIN_BYTES: Final = {"f32": 4, "f16": 2, "bf16": 2}
_LONGEST_CONSIDERED: Final = 4096
_GIB: Final = 1 << 30


class CacheShape(NamedTuple):
    """The shape of a model's key-value cache.

    Attributes:
        heads: of keys and values of all layers, by the sizes of a key and a value.
        length: tokens that the model can hold; None: its files do not say.
    """

    heads: Mapping[tuple[int, int], int]
    length: int | None

    def bytes_per_token(self, precision: str = "") -> int:
        """Return the bytes of a token.

        Args:
            precision: one that is not in `_PLAIN_BYTES` counts as the CPU plug-in's default, u8.

        In u8 keys have a scale per channel and block, values one per token (openvino 2026.4;
        measured: 437,760 bytes per block of SmolLM2-135M, 30 layers, 3 heads, 64 channels).
        """
        if plain := _PLAIN_BYTES.get(precision):
            return sum(count * plain * (key + value) for (key, value), count in self.heads.items())
        return sum(
            count * (key * (_BLOCK_TOKENS + _SCALE_BYTES) // _BLOCK_TOKENS + value + _SCALE_BYTES)
            for (key, value), count in self.heads.items()
        )


def read_cache_shape(model: Path) -> CacheShape | None:
    """Read the shape of a model's cache from its GGUF file or its ``config.json``.

    Returns:
        None: the files do not say, or say what cannot be.
    """
    if not model.is_file():
        return _shape_of_config(model / "config.json")
    # Imported here: it needs NumPy.
    from calculators.kit.checkpoints.decoder import read_decoder

    try:
        decoder = read_decoder(GgufFile(model))
    except (ResourceError, OSError):
        return None
    return CacheShape(decoder.cached_heads, decoder.context)


def cache_size_for(
    shape: CacheShape, memory: int, precision: str = "", conversations: int = 64
) -> int:
    """Return the ``cache_size``, in GB, that keeps so many conversations.

    Args:
        memory: bytes that the process may use; a quarter of them is the most.
        precision: of the cache; "": the default.

    Returns:
        At least 1. The cache is reserved, and takes memory only as far as it is used.
    """
    length = min(shape.length or _LONGEST_CONSIDERED, _LONGEST_CONSIDERED)
    wanted = shape.bytes_per_token(precision) * length * conversations
    return max(1, min(-(-wanted // _GIB), memory // 4 // _GIB))


def _shape_of_config(file: Path) -> CacheShape | None:
    config = read_json_object(file)
    if isinstance(config.get("text_config"), dict):
        # Models of text and images.
        config |= config["text_config"]
    heads = config.get("num_attention_heads")
    size: Any = config.get("head_dim") or _quotient(config.get("hidden_size"), heads)
    layers: Any = config.get("num_hidden_layers")
    kv_heads: Any = config.get("num_key_value_heads", heads)
    if any(type(number) is not int or number <= 0 for number in (layers, kv_heads, size)):
        return None
    length: Any = config.get("max_position_embeddings")
    is_known = type(length) is int and length > 0
    return CacheShape({(size, size): layers * kv_heads}, length if is_known else None)


def _quotient(number: Any, divisor: Any) -> int | None:
    if type(number) is not int or type(divisor) is not int or divisor <= 0:
        return None
    return number // divisor
