"""Model directories: their place, and the files that they must have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

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
    "llava_next_video": ("multi_modal_projector", "vision_resampler"),
}
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
    path = Path(directory, models_path).absolute()
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


def _needed(path: Path) -> Sequence[tuple[str, str, str]]:
    if not sees_images(path):
        return TEXT_FILES
    # A broken config.json is reported by `_check_files`.
    kind = read_json_object(path / "config.json").get("model_type")
    further = _FURTHER_MODELS.get(kind, ()) if isinstance(kind, str) else ()
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
