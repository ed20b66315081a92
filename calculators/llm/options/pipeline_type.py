"""``pipeline_type``: the pipeline, from the option or from the model's files and the device."""

from __future__ import annotations

from pathlib import Path

from calculators.llm.engine.engine_settings import NPU
from calculators.llm.engine.pipeline_kind import PipelineType, find_type
from calculators.llm.model_files.model_files import sees_images
from graph_runtime import ResourceError


def find_pipeline_type(asked: str, model: Path, device: str) -> PipelineType:
    """Return the type of a node, by OpenVINO Model Server's rules.

    Source: ``llm/servable_initializer.cpp``.

    Raises:
        ResourceError: the model or the device does not fit the type ``asked`` for.
    """
    is_seeing = sees_images(model)
    alone = find_type(sees_images=is_seeing, batches=False)
    batching = find_type(sees_images=is_seeing, batches=True)
    if asked == "AUTO":
        return alone if device == NPU else batching
    if asked == alone:
        return alone
    if asked == batching:
        if device == NPU:
            raise ResourceError(
                f"pipeline_type: {asked} needs continuous batching, which device NPU does not "
                f"have; use {alone} or AUTO"
            )
        return batching
    if asked == "OMNI":
        raise ResourceError(
            f"pipeline_type: OMNI, which hears and speaks, is not served; this model can be "
            f"{batching} or {alone}"
        )
    kind = "sees images" if is_seeing else "only reads text"
    raise ResourceError(
        f"pipeline_type: {asked} does not fit: the model in models_path {kind}; use AUTO, "
        f"{batching} or {alone}"
    )
