"""`PipelineKind`: the capabilities of each type of pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

#: The types that ``LLMCalculatorOptions`` names: for text, or for text and images; one request at a
#: time, or continuous batching (``_CB``).
PipelineType = Literal["LM", "LM_CB", "VLM", "VLM_CB"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineKind:
    """The capabilities of one `PipelineType`. A device or other options may take some away.

    Attributes:
        batches: many requests are generated at a time (continuous batching); otherwise one is.
        sees_images: the pipeline takes text and images.
        has_logprobs: the pipeline can report probabilities of tokens.
        has_beams: the pipeline can search with beams.
        has_adapters: the pipeline can load LoRA adapters.
        properties_at_top: the pipeline looks for the NPU's own properties only at the top of
            ``plugin_config``.
        weights: the name of the file with most of the weights, without its ending.
    """

    batches: bool
    sees_images: bool
    has_logprobs: bool
    has_beams: bool
    has_adapters: bool
    properties_at_top: bool
    weights: str


KINDS: Final[Mapping[PipelineType, PipelineKind]] = {
    "LM": PipelineKind(
        batches=False,
        sees_images=False,
        has_logprobs=False,
        has_beams=True,
        has_adapters=True,
        properties_at_top=True,
        weights="openvino_model",
    ),
    "LM_CB": PipelineKind(
        batches=True,
        sees_images=False,
        has_logprobs=True,
        has_beams=True,
        has_adapters=True,
        properties_at_top=False,
        weights="openvino_model",
    ),
    "VLM": PipelineKind(
        batches=False,
        sees_images=True,
        has_logprobs=False,
        has_beams=False,
        has_adapters=False,
        properties_at_top=False,
        weights="openvino_language_model",
    ),
    "VLM_CB": PipelineKind(
        batches=True,
        sees_images=True,
        has_logprobs=True,
        has_beams=True,
        has_adapters=False,
        properties_at_top=False,
        weights="openvino_language_model",
    ),
}
assert set(KINDS) == set(get_args(PipelineType))


def find_type(*, sees_images: bool, batches: bool) -> PipelineType:
    """Return the type with these capabilities."""
    return next(
        name
        for name, kind in KINDS.items()
        if (kind.sees_images, kind.batches) == (sees_images, batches)
    )
