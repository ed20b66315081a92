"""An embeddings node's options, checked: `EmbeddingsCalculatorOVOptions`.

Names, defaults and their meaning are OpenVINO Model Server's
(``embeddings/embeddings_servable.cpp``, ``sidepacket_servable.cpp``); the words are ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from calculators.device_name import device_problem
from calculators.plugin_config import read_json_properties
from calculators.tasks.options import find_model_options, naming_node
from graph_runtime import NodePlan, ResourceError, ResourceSettings
from graph_runtime.regular_file import MODEL_FILE_BYTES, read_regular_file

OPTIONS_TYPE: Final = "mediapipe.EmbeddingsCalculatorOVOptions"

#: Tokens of a text where ``config.json`` does not say how many the model takes.
_USUAL_LENGTH: Final = 1024
_LENGTH_NAMES: Final = (
    "max_position_embeddings",
    "n_positions",
    "seq_len",
    "seq_length",
    "n_ctx",
    "sliding_window",
)
#: Models that count positions from behind the padding token.
_ROBERTA: Final = frozenset({"roberta", "xlm-roberta", "camembert"})
_POOLING: Final = {
    "pooling_mode_cls_token": "CLS",
    "pooling_mode_mean_tokens": "MEAN",
    "pooling_mode_lasttoken": "LAST",
}
_FILES: Final = (
    ("openvino_model.xml", "optimum-cli export openvino --task feature-extraction"),
    ("openvino_model.bin", "optimum-cli export openvino --task feature-extraction"),
    ("openvino_tokenizer.xml", "convert_tokenizer"),
    ("openvino_tokenizer.bin", "convert_tokenizer"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsOptions:
    """The options of one node.

    Attributes:
        directory: the model's directory, absolute.
        device: OpenVINO's name of the device.
        properties: OpenVINO's properties.
        pooling: "CLS", "LAST" or "MEAN".
        max_tokens: the most tokens of one text, special ones included.
        warnings: texts for the log.
    """

    directory: Path
    device: str
    properties: Mapping[str, Any]
    pooling: str
    normalizes: bool
    truncates: bool
    max_tokens: int
    warnings: tuple[str, ...] = ()


def read_embeddings_options(node: NodePlan, settings: ResourceSettings) -> EmbeddingsOptions:
    """Check the options of a node, and the files that they name.

    Raises:
        ResourceError: with the node's name, the field, what is wrong, and what would be right.
    """
    with naming_node(node):
        return _read(find_model_options(node, OPTIONS_TYPE), settings)


def _read(options: Any, settings: ResourceSettings) -> EmbeddingsOptions:
    directory = _directory(options.models_path, settings.directory)
    device = options.target_device or "CPU"
    if problem := device_problem(device):
        raise ResourceError(f"target_device: {problem}")
    properties = read_json_properties(options.plugin_config)
    if device == "CPU" and not _has_fast_bfloat16():
        # OpenVINO's default is slower and less exact on processors that only have AVX-512's.
        properties.setdefault("INFERENCE_PRECISION_HINT", "f32")
    pooling: str
    warnings: tuple[str, ...]
    if options.HasField("pooling"):
        pooling, warnings = type(options).Pooling.Name(options.pooling), ()
    else:
        pooling, warnings = _pooling_of(directory)
    return EmbeddingsOptions(
        directory=directory,
        device=device,
        properties=properties,
        pooling=pooling,
        normalizes=options.normalize_embeddings,
        truncates=options.truncate,
        max_tokens=_length(_json(directory / "config.json")),
        warnings=warnings,
    )


def _directory(models_path: str, graph: Path) -> Path:
    directory = Path(graph, models_path).absolute()
    if not directory.is_dir():
        raise ResourceError(
            f'models_path: "{models_path}" is no directory; it is relative to the directory of the '
            "graph, or absolute"
        )
    for name, made_by in _FILES:
        if not (directory / name).is_file():
            raise ResourceError(f'models_path: "{models_path}" has no {name}; {made_by} makes it')
    return directory


def _pooling_of(directory: Path) -> tuple[str, tuple[str, ...]]:
    """The pooling of the model's own files, with a warning if they name none that is supported."""
    config = _json(directory / "1_Pooling" / "config.json")
    asked = sorted(
        name for name, value in config.items() if name.startswith("pooling_mode_") and value is True
    )
    if len(asked) == 1 and asked[0] in _POOLING:
        return _POOLING[asked[0]], ()
    said = f"asks for {', '.join(asked)}" if asked else "does not say which"
    return "CLS", (
        f"pooling: 1_Pooling/config.json {said}: CLS is taken; set pooling to CLS, LAST or MEAN",
    )


def _length(config: Mapping[str, Any]) -> int:
    found = (config.get(name) for name in _LENGTH_NAMES)
    length = next((each for each in found if type(each) is int and each > 0), _USUAL_LENGTH)
    if config.get("model_type") in _ROBERTA:
        pad = config.get("pad_token_id")
        length -= (pad if type(pad) is int else 0) + 1
    return max(length, 1)


def _json(file: Path) -> Mapping[str, Any]:
    """Read a JSON object from a file; {} if there is no file."""
    try:
        value = json.loads(read_regular_file(file, MODEL_FILE_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ResourceError(f"models_path: {file.name} cannot be read as JSON: {error}") from None
    return value if isinstance(value, dict) else {}


def _has_fast_bfloat16() -> bool:
    try:
        return "amx_bf16" in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
