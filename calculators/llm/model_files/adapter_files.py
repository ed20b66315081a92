"""LoRA adapters on disk: a folder that PEFT wrote, or a safetensors file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final, NamedTuple

from graph_runtime import ResourceError
from graphrt_base.regular_file import MODEL_FILE_BYTES, read_regular_file

_WEIGHTS: Final = "adapter_model.safetensors"
_CONFIG: Final = "adapter_config.json"
_LARGEST: Final = 1e9
#: Members of PEFT's config for features that the engine lacks, with the values that are fine.
_UNSUPPORTED: Final[dict[str, tuple[Any, ...]]] = {
    "peft_type": ("LORA",),
    "bias": (None, "none"),
    "use_dora": (None, False),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
    "modules_to_save": (None, []),
}


class FoundAdapter(NamedTuple):
    """An adapter on disk.

    Attributes:
        weights: the file; absolute.
        scale: the factor of its product by its own config; 1 without a config.
        rank: the rank by its config; None without a config.
    """

    weights: Path
    scale: float
    rank: int | None


def find_adapter(path: str, directory: Path) -> FoundAdapter:
    """Find an adapter and read its config.

    Args:
        path: absolute, or relative to ``directory``, the graph's.

    Raises:
        ResourceError: it is missing, or has features that the engine lacks.
    """
    found = Path(directory, path).absolute()
    if found.is_dir():
        return _of_folder(found, path)
    if not found.exists():
        raise ResourceError(
            f'"{path}" does not exist; it is relative to the directory of the graph, or absolute'
        )
    if not found.is_file() or found.suffix != ".safetensors":
        raise ResourceError(
            f'"{path}" is no .safetensors file; give one, or a folder with {_WEIGHTS} and {_CONFIG}'
        )
    return FoundAdapter(found, 1.0, None)


def _of_folder(folder: Path, shown: str) -> FoundAdapter:
    weights = folder / _WEIGHTS
    if not weights.is_file():
        raise ResourceError(f'"{shown}" has no {_WEIGHTS}; PEFT\'s save_pretrained makes it')
    try:
        config = json.loads(read_regular_file(folder / _CONFIG, MODEL_FILE_BYTES))
    except FileNotFoundError:
        raise ResourceError(
            f'"{shown}" has no {_CONFIG}, which says how strong the adapter is; '
            f"PEFT's save_pretrained makes it"
        ) from None
    except (OSError, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise ResourceError(f'"{shown}": {_CONFIG} is no JSON object')
    for member, fine in _UNSUPPORTED.items():
        value = config.get(member)
        if value not in fine:
            said = json.dumps(value)
            raise ResourceError(
                f'"{shown}": {_CONFIG} says {member}: {said[:60]}, which the engine does not have; '
                f"it has plain LoRA with one rank and one alpha"
            )
    rank, alpha = _positive(config.get("r")), _positive(config.get("lora_alpha"))
    if rank is None or alpha is None or rank != int(rank):
        raise ResourceError(
            f'"{shown}": {_CONFIG} needs r, a whole number, and lora_alpha, both above 0'
        )
    divisor = math.sqrt(rank) if config.get("use_rslora") else rank
    return FoundAdapter(weights, alpha / divisor, int(rank))


def _positive(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 < value < _LARGEST else None
