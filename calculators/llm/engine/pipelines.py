"""The choice of the pipeline that runs a model in the engine process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from calculators.kit.child_process.messages import Loading, Log
from calculators.llm.engine.adapter_scheduler import AdapterScheduler
from calculators.llm.engine.admission import Admission
from calculators.llm.engine.cache_capacity import find_cache_capacity
from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.engine.genai_pipeline import GenaiPipeline
from calculators.llm.engine.library_config import recommended_device
from calculators.llm.engine.precision import with_working_precision
from calculators.llm.engine.stateful_models import TextModel, VisionModel
from calculators.llm.engine.stateful_pipeline import StatefulPipeline

_LOGGER: Final = "graphrt.llm"


def open_pipeline(
    settings: EngineSettings,
    wake: Callable[[], None],
    report: Callable[[Loading | Log], None] = lambda news: None,
) -> AdapterScheduler | Admission | StatefulPipeline:
    """Load the model.

    Args:
        wake: called, in any thread, when a pipeline has news without a step.
        report: called when a phase of loading begins, and with lines for the log.

    Raises:
        Exception: the library cannot load it; the text is the library's.
    """
    report(Loading("compiling the model", 0.1, 0.8))
    settings, warning = with_working_precision(settings, settings.device or recommended_device())
    if warning:
        report(Log(logging.WARNING, _LOGGER, warning))

    def on_opened() -> None:
        # With the first token the library reads all weights, and packs them.
        report(Loading("reading the weights", 0.8, 1.0, _mapped_weights(settings)))

    if settings.kind.batches:
        return _open_batching(settings, on_opened)
    model = VisionModel if settings.kind.sees_images else TextModel
    return StatefulPipeline(lambda: model(settings), wake, on_opened=on_opened)


def _open_batching(
    settings: EngineSettings, on_opened: Callable[[], None]
) -> AdapterScheduler | Admission:
    library = GenaiPipeline(settings, on_opened)
    cache = find_cache_capacity(settings, library.cache_usage_of)
    tokens = settings.max_num_batched_tokens
    # Where prompts are split, the library runs as many sequences as a step has tokens.
    places = tokens if settings.dynamic_split_fuse else settings.max_num_seqs
    pipeline = Admission(library, places, step_tokens=tokens, cache=cache)
    return AdapterScheduler(pipeline) if settings.adapters else pipeline


def _mapped_weights(settings: EngineSettings) -> int:
    """Return the bytes of weights that the library maps; 0 where it makes them from a GGUF file."""
    try:
        return (Path(settings.model_path) / f"{settings.kind.weights}.bin").stat().st_size
    except OSError:
        return 0
