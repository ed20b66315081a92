"""`LlmSource`: the files that the processes of a node load, and their places in the cache.

A directory is loaded as it is. A GGUF file is converted once; the engine, prompts and grammars read
the directory that is made of it. So do draft models. `first_messages` are for processes that start
before their node is loaded: what they will be told to load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.msgpack import encode

from calculators.kit.device_options import has_no_accelerator
from calculators.kit.model_cache import PROPERTY, CacheEntry, ModelCache, finish, hold_compiled
from calculators.kit.model_initializer import cache_of, conversions_of
from calculators.llm.engine.engine import engine_load
from calculators.llm.engine.settings import EngineSettings
from calculators.llm.model_files import read_model_length
from calculators.llm.options.node_options import NodeOptions, read_node_options
from calculators.llm.prompt.client import prompt_load
from calculators.llm.task_options import LlmSettings
from graph_runtime import LoadProgress, NodePlan, ResourceError, ResourceSettings

if TYPE_CHECKING:
    from calculators.kit.checkpoints.converted_gguf import ConvertedModel, GgufSource


@dataclass(slots=True)
class LlmSource:
    """The files of one node's model.

    Attributes:
        path: a directory with the model and its tokenizer.
        engine: the engine's settings for it.
        progress: of the loading of these files.
    """

    path: Path
    engine: EngineSettings
    progress: LoadProgress
    _converted: list[ConvertedModel] = field(default_factory=list)
    _compiled: CacheEntry | None = field(default=None)

    async def loaded(self) -> None:
        """Keep what loading has left in the cache."""
        await asyncio.to_thread(finish, self._compiled)

    def close(self) -> None:
        """End the use of the cache."""
        for model in self._converted:
            model.close()
        if self._compiled is not None:
            self._compiled.close()


async def find_source(
    options: NodeOptions,
    cache: ModelCache | None,
    name: str,
    progress: LoadProgress,
    conversions: ModelCache | None = None,
) -> LlmSource:
    """Return the files to load; GGUF files are converted unless ``conversions`` holds them.

    Args:
        cache: keeps compiled models; None: they are not kept.
        conversions: keeps converted models; None: ``cache`` does.

    Raises:
        ResourceError: a GGUF file cannot be converted.
    """
    conversions = conversions or cache
    source = LlmSource(options.model_path, options.engine, progress)
    draft, draft_file = options.engine.draft, _draft_file(options.engine)
    # All files are read before one of them is converted, which takes long.
    main = None
    if options.model_path.is_file():
        batches = options.engine.kind.batches
        main = await _read(options.model_path, options, batches=batches)
        await asyncio.to_thread(check_templates, main)
    drafting = None if draft_file is None else await _read(draft_file, options)
    try:
        if main is not None:
            source.path = await _convert(source, main, name, conversions)
            source.engine = msgspec.structs.replace(source.engine, model_path=str(source.path))
        if draft is not None and drafting is not None:
            path = await _convert(source, drafting, name, conversions)
            draft = msgspec.structs.replace(draft, path=str(path))
            source.engine = msgspec.structs.replace(source.engine, draft=draft)
        if cache is not None and _can_be_compiled_once(source.engine):
            source._compiled = await asyncio.to_thread(_hold_compiled, source, cache)
            if source._compiled is not None:
                properties = {**source.engine.plugin_config, PROPERTY: str(source._compiled.path)}
                source.engine = msgspec.structs.replace(source.engine, plugin_config=properties)
    except BaseException:
        source.close()
        raise
    return source


async def _read(path: Path, options: NodeOptions, *, batches: bool = True) -> GgufSource:
    # Imported here: servers of other models need none of it.
    from calculators.kit.checkpoints.converted_gguf import read_source

    gguf = await asyncio.to_thread(read_source, path, options.weights_form, batches=batches)
    if gguf.pooling:
        raise ResourceError(
            f'"{path.name}" turns texts into vectors or scores, and continues none: `graphrt serve '
            "FILE` serves it for embeddings or rerank"
        )
    return gguf


def check_templates(gguf: GgufSource) -> None:
    """Compile the chat templates of a GGUF file.

    Raises:
        ResourceError: one does not compile; the text names its key and line.
    """
    if not gguf.templates:
        return
    from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
    from calculators.llm.prompt.chat_template.limits import ChatTemplateError

    for name, text in gguf.templates.items():
        key = f"tokenizer.chat_template.{name}" if name else "tokenizer.chat_template"
        try:
            ChatTemplate.of_source(text, file=key)
        except ChatTemplateError as error:
            raise ResourceError(
                f'"{gguf.file.name}": its chat template does not compile: {error}'
            ) from None


async def _convert(
    source: LlmSource, gguf: GgufSource, name: str, conversions: ModelCache | None
) -> Path:
    from calculators.kit.checkpoints.converted_gguf import hold_converted

    model, source.progress = await hold_converted(gguf, conversions, name, source.progress)
    source._converted.append(model)
    return model.path


def files_known_now(
    options: NodeOptions, cache: ModelCache | None, conversions: ModelCache | None
) -> tuple[Path, EngineSettings] | None:
    """Return path and settings of the `LlmSource` that `find_source` will return.

    None if it may have to make or wait for something.
    """
    path, engine = options.model_path, options.engine
    if _draft_file(engine) is not None:
        return None
    if path.is_file():
        from calculators.kit.checkpoints.converted_gguf import find_converted

        conversions = conversions or cache
        if conversions is None:
            return None
        converted = find_converted(
            path, options.weights_form, conversions, batches=engine.kind.batches
        )
        if converted is None:
            return None
        path, engine = converted, msgspec.structs.replace(engine, model_path=str(converted))
    if cache is not None and _can_be_compiled_once(engine):
        return None
    return path, engine


def _draft_file(engine: EngineSettings) -> Path | None:
    """Return the GGUF file of the draft model; None if it is not a file."""
    path = None if engine.draft is None else Path(engine.draft.path)
    return path if path is not None and path.is_file() else None


def _can_be_compiled_once(engine: EngineSettings) -> bool:
    """Return True if OpenVINO can read the compiled model back.

    Models with paged attention, which continuous batching needs, cannot be imported on a CPU
    (openvino 2026.4.1): they are compiled at each start, and what is written is never read. Where
    the engine chooses the device, it decides, unless there is nothing to choose.
    """
    is_on_cpu = engine.device.partition(":")[0] == "CPU" or (
        not engine.device and has_no_accelerator()
    )
    return not (engine.kind.batches and is_on_cpu)


def _hold_compiled(source: LlmSource, cache: ModelCache) -> CacheEntry | None:
    files = [source.path]
    if source.path.is_dir():
        files = sorted((*source.path.glob("*.xml"), *source.path.glob("*.bin")))
    engine = msgspec.structs.replace(source.engine, model_path="", plugin_config={})
    return hold_compiled(cache, files, engine.device, source.engine.plugin_config, engine)


def first_messages(node: NodePlan, settings: ResourceSettings) -> Mapping[str, bytes]:
    """Return the messages by module; see `calculators.kit.tasks.task.Task`.

    Empty if loading has to make files first.

    Raises:
        ResourceError: an option of the node is wrong.
    """
    options = read_node_options(node, settings)
    known = files_known_now(options, cache_of(settings), conversions_of(settings))
    if known is None:
        return {}
    path, engine = known
    length = read_model_length(options.model_path)
    sees_images = options.engine.kind.sees_images
    return {
        "calculators.llm.engine.process": encode(engine_load(engine)),
        "calculators.llm.prompt.process": encode(
            prompt_load(
                str(path),
                max_tokens=length,
                sees_images=sees_images,
                special_tokens_in_text=settings.of(LlmSettings).special_tokens_in_text,
                template_directory=options.template_directory,
            )
        ),
    }
