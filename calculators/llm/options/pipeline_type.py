"""``pipeline_type``: what runs the model, said or found out from its files and the device."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from calculators.llm.engine.engine_settings import PipelineType
from calculators.llm.model_files.model_files import sees_images
from graph_runtime import ResourceError

#: By whether the model sees images: without and with continuous batching.
_TYPES: Final[dict[bool, tuple[PipelineType, PipelineType]]] = {
    False: ("LM", "LM_CB"),
    True: ("VLM", "VLM_CB"),
}
#: Its plugin has no continuous batching.
_ALONE: Final = "NPU"


def find_pipeline_type(asked: str, model: Path, device: str) -> PipelineType:
    """The type of a node; rules of OpenVINO Model Server (``llm/servable_initializer.cpp``).

    Raises:
        ResourceError: the model is none for the type that was asked for.
    """
    alone, batching = _TYPES[sees_images(model)]
    if asked == "AUTO":
        return alone if device == _ALONE else batching
    if asked == alone:
        return alone
    if asked == batching:
        if device == _ALONE:
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
    kind = "sees images" if sees_images(model) else "only reads text"
    raise ResourceError(
        f"pipeline_type: {asked} does not fit: the model in models_path {kind}; use AUTO, "
        f"{batching} or {alone}"
    )
