"""`ModelSource`: the files that the processes of a node load, and their places in the cache."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from calculators.device_name import has_no_accelerator
from calculators.llm.conversion.converted_gguf import find_converted, hold_converted
from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.model_files.decoder import check_model
from calculators.llm.model_files.model_length import read_model_length
from calculators.llm.options.node_options import NodeOptions
from calculators.model_cache import CacheEntry, ModelCache
from calculators.model_cache.compiled_models import PROPERTY, finish, hold_compiled
from graph_runtime import LoadProgress

_log = logging.getLogger("graphrt.llm")


@dataclass(slots=True)
class ModelSource:
    """The files of one node's model.

    Attributes:
        path: a directory with the model and its tokenizer, or a GGUF file.
        engine: the engine's settings for it.
        progress: of the loading of these files.
    """

    path: Path
    engine: EngineSettings
    progress: LoadProgress
    _converted: CacheEntry | None = field(default=None)
    _compiled: CacheEntry | None = field(default=None)

    async def loaded(self) -> None:
        """Keep what loading has left in the cache."""
        await asyncio.to_thread(finish, self._compiled)

    def close(self) -> None:
        """End the use of the cache."""
        for entry in (self._converted, self._compiled):
            if entry is not None:
                entry.close()


async def find_source(
    options: NodeOptions, cache: ModelCache | None, name: str, progress: LoadProgress
) -> ModelSource:
    """Return the files to load. A GGUF file is converted if there is a cache."""
    source = ModelSource(options.model_path, options.engine, progress)
    if cache is None:
        if options.model_path.is_file():
            _log.info("%s: --cache_dir keeps the converted GGUF file for faster starts", name)
        return source
    try:
        if options.model_path.is_file():
            source._converted, source.progress = await hold_converted(
                options.model_path, cache, name, progress
            )
            if source._converted is not None:
                source.path = source._converted.path
                source.engine = msgspec.structs.replace(options.engine, model_path=str(source.path))
        if _can_be_compiled_once(source.engine):
            source._compiled = await asyncio.to_thread(_hold_compiled, source, cache)
            if source._compiled is not None:
                properties = {**source.engine.plugin_config, PROPERTY: str(source._compiled.path)}
                source.engine = msgspec.structs.replace(source.engine, plugin_config=properties)
    except BaseException:
        source.close()
        raise
    return source


def files_known_now(
    options: NodeOptions, cache: ModelCache | None
) -> tuple[Path, EngineSettings] | None:
    """Return path and settings of the `ModelSource` that `find_source` will return.

    None if it may have to make or wait for something.
    """
    path, engine = options.model_path, options.engine
    if cache is not None:
        if path.is_file():
            converted = find_converted(path, cache)
            if converted is None:
                return None
            path, engine = converted, msgspec.structs.replace(engine, model_path=str(converted))
        if _can_be_compiled_once(engine):
            return None
    return path, engine


def length_of(options: NodeOptions) -> int | None:
    """Return a model's length in tokens; None: unknown.

    Raises:
        ResourceError: the file is no GGUF file that can be run.
    """
    if options.model_path.is_file():
        return check_model(options.model_path).context or None
    return read_model_length(options.model_directory)


def _can_be_compiled_once(engine: EngineSettings) -> bool:
    """True if OpenVINO can read the compiled model back.

    Models with paged attention, which continuous batching needs, cannot be imported on a CPU
    (openvino 2026.4.1): they are compiled at each start, and what is written is never read. Where
    the engine chooses the device, it decides, unless there is nothing to choose.
    """
    is_on_cpu = engine.device.partition(":")[0] == "CPU" or (
        not engine.device and has_no_accelerator()
    )
    return not (engine.kind.batches and is_on_cpu)


def _hold_compiled(source: ModelSource, cache: ModelCache) -> CacheEntry | None:
    files = [source.path]
    if source.path.is_dir():
        files = sorted((*source.path.glob("*.xml"), *source.path.glob("*.bin")))
    engine = msgspec.structs.replace(source.engine, model_path="", plugin_config={})
    return hold_compiled(cache, files, engine.device, source.engine.plugin_config, engine)
