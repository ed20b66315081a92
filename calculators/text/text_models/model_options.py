"""Options that nodes of encoder models share, checked: directory, device, properties, length."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.device_options import read_device
from calculators.kit.examples import find_path
from calculators.kit.model_cache import CacheEntry, ModelCache, hold_compiled, user_cache
from calculators.kit.model_directory import find_model_directory, read_checked_json
from calculators.kit.model_initializer import conversions_of
from calculators.kit.tasks.model_config import LENGTH_NAMES
from graph_runtime import LoadProgress, ResourceError, ResourceSettings

if TYPE_CHECKING:
    from calculators.kit.checkpoints.converted_gguf import ConvertedModel

#: Compiled kernels of each kind that are kept: batches have many shapes, and the process would
#: grow with each (docs/decisions/0008-few-compiled-kernels.md).
KERNELS: Final = 128

#: Tokens of a text where config.json does not say how many the model takes.
USUAL_MAX_TOKENS: Final = 1024

#: Models whose first position is the padding token's id plus one.
_ROBERTA: Final = frozenset({"roberta", "xlm-roberta", "camembert"})
#: Converted models of this process, by what they are made of: the cache does not remove them.
_held: Final[dict[str, ConvertedModel]] = {}
_lock: Final = threading.Lock()
_MODEL_FILES: Final = ("openvino_model.xml", "openvino_model.bin")
_TOKENIZER_FILES: Final = ("openvino_tokenizer.xml", "openvino_tokenizer.bin")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextModelOptions:
    """The model of one node.

    Attributes:
        directory: the model's directory, absolute.
        device: OpenVINO's name of the device.
        properties: OpenVINO's properties.
        max_tokens: the most tokens of one sequence, special ones included.
        config: the model's config.json.
    """

    directory: Path
    device: str
    properties: Mapping[str, Any]
    max_tokens: int
    config: Mapping[str, Any]


def read_text_model(
    models_path: str,
    target_device: str,
    plugin_config: str,
    graph_directory: Path,
    *,
    max_tokens: int = 0,
    usual_max_tokens: int = USUAL_MAX_TOKENS,
    exported_with: str = "optimum-cli export openvino --task feature-extraction",
    settings: ResourceSettings | None = None,
) -> TextModelOptions:
    """Check the options of a node, and the files that they name. Reads files: for a thread.

    Args:
        max_tokens: tokens of a sequence as the node says; 0: as config.json says.
        usual_max_tokens: those where config.json does not say.
        exported_with: the command that makes such a model, for errors.
        settings: name the cache of converted GGUF files; None: it is the user's.

    Raises:
        ResourceError: with the field, what is wrong, and what would be right.
    """
    file = find_path(models_path, graph_directory)
    if file.suffix == ".gguf" and file.is_file():
        conversions = user_cache() if settings is None else conversions_of(settings)
        models_path = str(_directory_of_gguf(file, conversions))
    directory = _directory(models_path, graph_directory, exported_with)
    device, properties = read_device(target_device, plugin_config)
    if device == "CPU":
        properties.setdefault("CPU_RUNTIME_CACHE_CAPACITY", KERNELS)
    config = read_checked_json(directory / "config.json")
    return TextModelOptions(
        directory=directory,
        device=device,
        properties=properties,
        max_tokens=max_tokens or _max_tokens(config, usual_max_tokens),
        config=config,
    )


def compiled_entry(
    options: TextModelOptions, cache: ModelCache | None, head: Mapping[str, Any]
) -> CacheEntry | None:
    """Return the cache's entry of the compiled model, or None; reads files: for a thread.

    ``head``: the task's settings, which are part of what is compiled.
    """
    if cache is None:
        return None
    files = [options.directory / name for name in _MODEL_FILES]
    return hold_compiled(cache, files, options.device, options.properties, sorted(head.items()))


def _directory_of_gguf(path: Path, conversions: ModelCache) -> Path:
    """Return the directory of a GGUF file's model, converted now unless the cache holds it.

    `graphrt serve FILE` converts such a file before it serves; a graph that names the file comes
    here, also when a configuration is loaded again.

    Raises:
        ResourceError: the file is damaged, of a language model, or cannot be converted.
    """
    # Imported here: models in other forms need none of it.
    from calculators.kit.checkpoints.converted_gguf import hold_converted, read_source

    source = read_source(path)
    if not source.pooling:
        raise ResourceError(
            f'models_path: "{path.name}" is a language model ({source.file.architecture}), which '
            "makes no vectors: take a model with a pooling_type"
        )

    def convert() -> ConvertedModel:
        held = hold_converted(source, conversions, path.stem, LoadProgress())
        return asyncio.run(held)[0]

    with _lock:
        key = source.key
        if key not in _held:
            with ThreadPoolExecutor(1, "graphrt-conversion") as thread:
                # In a thread: the caller may run on an event loop, in which asyncio.run is refused.
                _held[key] = thread.submit(convert).result()
        return _held[key].path


def _directory(models_path: str, graph: Path, exported_with: str) -> Path:
    directory = find_model_directory(models_path, graph)
    for name in _MODEL_FILES:
        if not (directory / name).is_file():
            raise ResourceError(
                f'models_path: "{models_path}" has no {name}; {exported_with} makes it'
            )
    if (directory / "tokenizer.json").is_file():
        return directory
    for name in _TOKENIZER_FILES:
        if not (directory / name).is_file():
            raise ResourceError(
                f'models_path: "{models_path}" has neither tokenizer.json nor {name}; '
                "optimum-cli export openvino copies the first, convert_tokenizer makes the second"
            )
    return directory


def _max_tokens(config: Mapping[str, Any], usual: int) -> int:
    found = (config.get(name) for name in LENGTH_NAMES)
    length = next((each for each in found if type(each) is int and each > 0), usual)
    if config.get("model_type") in _ROBERTA:
        pad = config.get("pad_token_id")
        length -= (pad if type(pad) is int else 0) + 1
    return max(length, 1)
