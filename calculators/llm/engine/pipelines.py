"""The choice of the pipeline that runs a model in the engine process."""

from __future__ import annotations

from collections.abc import Callable

from calculators.llm.engine.adapter_scheduler import AdapterScheduler
from calculators.llm.engine.cache_admission import CacheAdmission
from calculators.llm.engine.cache_capacity import find_cache_capacity
from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.engine.genai_pipeline import GenaiPipeline
from calculators.llm.engine.stateful_models import TextModel, VisionModel
from calculators.llm.engine.stateful_pipeline import StatefulPipeline


def open_pipeline(
    settings: EngineSettings, wake: Callable[[], None]
) -> AdapterScheduler | CacheAdmission | GenaiPipeline | StatefulPipeline:
    """Load the model.

    Args:
        wake: called, in any thread, when a pipeline has news without a step.

    Raises:
        Exception: the library cannot load it; the text is the library's.
    """
    if settings.kind.batches:
        return _open_batching(settings)
    model = VisionModel if settings.kind.sees_images else TextModel
    return StatefulPipeline(lambda: model(settings), wake)


def _open_batching(settings: EngineSettings) -> AdapterScheduler | CacheAdmission | GenaiPipeline:
    library = GenaiPipeline(settings)
    room = find_cache_capacity(settings, library.cache_usage_of)
    pipeline = library if room is None else CacheAdmission(library, room)
    return AdapterScheduler(pipeline) if settings.adapters else pipeline
