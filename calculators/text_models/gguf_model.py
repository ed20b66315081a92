"""The directory of an encoder in a GGUF file, which the builder of language models converts once.

`graphrt serve FILE` converts such a file before it serves. A graph that names the file itself comes
here, also when a configuration is loaded again.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from calculators.llm.conversion.converted_gguf import (
    ConvertedModel,
    GgufSource,
    hold_converted,
    read_source,
)
from calculators.model_cache import ModelCache
from graph_runtime import LoadProgress, ResourceError

#: Models of this process, by what they are made of: the cache does not remove them.
_held: Final[dict[str, ConvertedModel]] = {}
_lock: Final = threading.Lock()


def directory_of_gguf(path: Path, conversions: ModelCache) -> Path:
    """Return the directory of a GGUF file's model, converted now unless the cache holds it.

    Blocks while the file is converted: for a thread.

    Raises:
        ResourceError: the file is damaged, of a language model, or cannot be converted.
    """
    source = read_source(path)
    if not source.pooling:
        raise ResourceError(
            f'models_path: "{path.name}" is a language model ({source.file.architecture}), which '
            "makes no vectors: take a model with a pooling_type"
        )
    with _lock:
        key = source.key
        if key not in _held:
            with ThreadPoolExecutor(1, "graphrt-conversion") as thread:
                _held[key] = thread.submit(_converted, source, conversions, path.stem).result()
        return _held[key].path


def _converted(source: GgufSource, conversions: ModelCache, name: str) -> ConvertedModel:
    model, _ = asyncio.run(hold_converted(source, conversions, name, LoadProgress()))
    return model
