"""Loading of a model: makes the `LlmServable` of a node from its options."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING, Any

from calculators.images.media.image import MAX_IMAGES, MAX_VIDEOS
from calculators.images.media.media_rules import NO_MEDIA, MediaRules
from calculators.images.media.reader import ImageReader
from calculators.kit.child_process.supervisor import LoadError
from calculators.kit.model_cache import ModelCache
from calculators.kit.model_card import read_model_card
from calculators.kit.places import Place
from calculators.llm.engine.engine import ProcessEngine
from calculators.llm.engine.messages import EngineReady
from calculators.llm.engine.placed_engine import PlacedEngine
from calculators.llm.engine.scoring_engine import ScoringEngine
from calculators.llm.engine.settings import EngineSettings, PipelineKind
from calculators.llm.grammar_process.client import GrammarChecker
from calculators.llm.model_files import read_model_length, read_voices, takes_videos
from calculators.llm.model_source import find_source
from calculators.llm.options.node_options import NodeOptions
from calculators.llm.options.plugin_config import precision_hint
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.pattern import described
from calculators.llm.parsers.registry import MADE, NO_PARSER, UnknownParser
from calculators.llm.prompt.client import PromptProcess
from calculators.llm.prompt.messages import PromptReady
from calculators.llm.requests.model_defaults import ModelDefaults, read_generation_defaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.servable import (
    LlmServable,
    LoadedModel,
    ModelProcesses,
    ModelProfile,
    ServingLimits,
)
from calculators.llm.task_options import LlmSettings
from graph_runtime import LoadProgress, ResourceError

if TYPE_CHECKING:
    from calculators.speech.audio.sound_reader import SoundReader

log = logging.getLogger("graphrt.llm")


async def load_servable(
    options: NodeOptions,
    *,
    name: str,
    settings: LlmSettings,
    media: MediaRules = NO_MEDIA,
    cache: ModelCache | None = None,
    conversions: ModelCache | None = None,
    progress: LoadProgress | None = None,
    place: Place | None = None,
) -> LlmServable:
    """Start the processes of a node and load its model.

    Args:
        settings: for all language models.
        media: the allowed sources of images.
        cache: keeps what loading makes; None: nothing is kept.
        conversions: keeps converted GGUF files; None: ``cache`` does.
        progress: gets the phases of loading.
        place: where the engine is; None: in a child process of this one. In a place of its own it
            loads the model's files as they are.

    Raises:
        ResourceError: the model cannot be loaded; nothing is left running.
    """
    for warning in options.warnings:
        log.warning("%s: %s", name, warning)
    # An engine on another machine has no access to this one's cache.
    cache = cache if place is None else None
    source = await find_source(options, cache, name, progress or LoadProgress(), conversions)
    length = read_model_length(options.model_path)
    defaults = read_generation_defaults(
        source.path if options.model_path.is_file() else options.model_directory
    )
    of_engine, of_prompts = source.progress.split(0.85, 0.15)

    def make_engine(settings: EngineSettings) -> ProcessEngine | PlacedEngine:
        if place is None:
            return ProcessEngine(settings, name=name)
        paths = options.files(source.path)
        return PlacedEngine(settings, place, name=options.model_path.name, paths=paths)

    engine = make_engine(source.engine)
    scoring = None
    if options.engine.enable_prefix_caching and options.engine.kind.has_logprobs:
        scoring = ScoringEngine(source.engine, make_engine, name=name)
    kind = options.engine.kind
    sees_images = kind.sees_images
    prompts = PromptProcess(
        str(source.path),
        name=name,
        max_tokens=length,
        sees_images=sees_images,
        special_tokens_in_text=settings.special_tokens_in_text,
        template_directory=options.template_directory,
    )
    grammars = GrammarChecker(str(source.path), name=name)
    sounds = _sound_reader(name) if options.engine.hears else None
    processes = ModelProcesses(
        engine=engine,
        prompts=prompts,
        grammars=grammars,
        scoring=scoring,
        sounds=sounds,
        on_end=source.close,
    )
    try:
        if sounds is not None:
            await sounds.start()
        ready, prompts_ready = await asyncio.gather(
            engine.start(of_engine), prompts.start(of_prompts)
        )
        await source.loaded()
        model = LoadedModel(
            processes=processes,
            defaults=defaults,
            length=length,
            engine_ready=ready,
            prompts_ready=prompts_ready,
        )
        servable = make_servable(model, options, name=name, settings=settings, media=media)
    except BaseException as error:
        await processes.close()
        if isinstance(error, LoadError):
            size = options.engine.cache_size
            hint = f" (cache_size: {size} means {size} GB)" if "cache size" in str(error) else ""
            hint = hint or precision_hint(str(error), options.engine.plugin_config)
            raise ResourceError(f"the model cannot be loaded: {error}{hint}") from None
        raise
    if prompts_ready.template_problem:
        log.warning(
            "%s: no chats, since it has no usable chat template: %s",
            name,
            prompts_ready.template_problem,
        )
    if not prompts_ready.tokens.is_exact:
        log.warning("%s: text is decoded by the tokenizer itself, which costs time", name)
    log.info("%s: %s on %s, loaded in %.1f s", name, ready.engine, ready.device, ready.seconds)
    return servable


def _sound_reader(name: str) -> SoundReader:
    # Imported here: few models hear.
    from calculators.speech.audio.sound_reader import SoundReader

    return SoundReader(name)


def make_servable(
    model: LoadedModel,
    options: NodeOptions,
    *,
    name: str,
    settings: LlmSettings,
    media: MediaRules = NO_MEDIA,
) -> LlmServable:
    """Return a node's view of a loaded model: its parsers and limits; see `load_servable`.

    Raises:
        ResourceError: the package that offers a parser is broken.
    """
    engine = options.engine
    ready, prompts_ready = model.engine_ready, model.prompts_ready
    parsers = _parsers(options, prompts_ready, name)
    if not prompts_ready.knows_tools and parsers.calls is not None:
        log.info("%s: the chat template knows no tools: requests have them in a message", name)
    elif not prompts_ready.knows_tools:
        log.warning(
            "%s: the chat template knows no tools, and no parser reads its calls: tools of requests"
            " are left out",
            name,
        )
    sees_images = engine.kind.sees_images
    sounds = model.processes.sounds
    return LlmServable(
        model,
        ModelProfile(
            parsers=parsers,
            guides_tools=options.enable_tool_guided_generation,
            adapters=[adapter.name for adapter in engine.adapters],
            fingerprint=_fingerprint(ready, options),
            card=read_model_card(
                options.model_path,
                _capabilities(model, parsers, engine.kind),
                _shown_defaults(model.defaults),
                shows_template=settings.show_tokenizer,
            ),
        ),
        ServingLimits(
            request=RequestLimits(
                max_tokens_limit=options.max_tokens_limit,
                best_of_limit=options.best_of_limit,
                max_model_length=model.length,
                max_images=MAX_IMAGES if sees_images else 0,
                max_videos=MAX_VIDEOS if sees_images and takes_videos(options.model_path) else 0,
                max_sounds=0 if sounds is None else sounds.most_sounds,
                voices=read_voices(options.model_path) if engine.kind.speaks else (),
                has_logprobs=engine.kind.has_logprobs,
                has_beams=engine.has_beams,
                decoding_mode=engine.decoding_mode,
            ),
            queue=settings.request_limit,
            batch_without_split=None
            if engine.dynamic_split_fuse or not engine.kind.batches
            else engine.max_num_batched_tokens,
            prompt=options.max_prompt_tokens,
            cache=ready.cache_tokens or None,
        ),
        settings=settings,
        images=ImageReader(media) if sees_images else None,
    )


def _parsers(options: NodeOptions, prompts: PromptReady, name: str) -> OutputParsers:
    """Return the parsers that the options name, else those that the chat template suggests.

    Raises:
        ResourceError: the package that offers one is broken.
    """
    tool = options.tool_parser or prompts.tool_parser or NO_PARSER
    reasoning = options.reasoning_parser or prompts.reasoning_parser or NO_PARSER
    log.info("%s: tool parser %s, reasoning parser %s", name, tool, reasoning)
    if prompts.made is not None and MADE in (tool, reasoning):
        log.info("%s: made of its chat template: %s", name, described(prompts.made))
    try:
        return OutputParsers.named(tool, reasoning, prompts.made)
    except UnknownParser as error:
        raise ResourceError(str(error)) from None


def _capabilities(
    model: LoadedModel, parsers: OutputParsers, kind: PipelineKind
) -> tuple[str, ...]:
    """Return `ModelCard.capabilities`."""
    asked = {
        "completion": True,
        "tools": model.prompts_ready.knows_tools or parsers.calls is not None,
        "thinking": parsers.reasoning is not None,
        "insert": model.prompts_ready.infill_ends is not None,
        "vision": kind.sees_images,
        "audio": model.processes.sounds is not None,
    }
    return tuple(name for name, has_it in asked.items() if has_it)


def _shown_defaults(defaults: ModelDefaults) -> dict[str, Any]:
    """Return `ModelCard.defaults`."""
    found = {
        "temperature": defaults.temperature,
        "top_k": defaults.top_k,
        "top_p": defaults.top_p,
        "min_p": defaults.min_p,
        "repeat_penalty": defaults.repetition_penalty,
        "num_predict": defaults.max_new_tokens,
        "stop": list(defaults.stop_strings) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _fingerprint(ready: EngineReady, options: NodeOptions) -> str:
    """Return a text that changes when the same seed may give another answer."""
    weights = options.model_path
    if weights.is_dir():
        weights = weights / f"{options.engine.kind.weights}.bin"
    status = weights.stat()
    parts = (ready.engine, ready.device, options.engine, status.st_size, status.st_mtime_ns)
    return f"fp_{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"
