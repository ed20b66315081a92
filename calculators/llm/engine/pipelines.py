"""What runs a model in the engine process, by its type."""

from __future__ import annotations

from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.engine.genai_pipeline import GenaiPipeline


def open_pipeline(settings: EngineSettings) -> GenaiPipeline:
    """Load the model.

    Raises:
        Exception: the library's, in its words.
    """
    if settings.pipeline_type != "LM_CB":
        raise RuntimeError(f"pipeline_type {settings.pipeline_type} is not served yet")
    return GenaiPipeline(settings)
