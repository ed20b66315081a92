"""A reranking node's options, checked: `RerankCalculatorOVOptions`.

Names, defaults and their meaning are OpenVINO Model Server's (``rerank/rerank_servable.hpp``,
``sidepacket_servable.cpp``); the words are ours where it has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from calculators.kit.tasks.options import find_model_options, naming_node
from calculators.text.text_models.model_options import TextModelOptions, read_text_model
from graph_runtime import NodePlan, ResourceError, ResourceSettings

OPTIONS_TYPE: Final = "mediapipe.RerankCalculatorOVOptions"

#: Tokens of a pair where ``config.json`` does not say how many the model takes.
_USUAL_LENGTH: Final = 512
#: The tokens that OpenVINO Model Server puts around a pair.
_SPECIAL_TOKENS: Final = 4
_LARGEST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankOptions:
    """The options of one node.

    Attributes:
        model: the model's directory and its properties.
        max_allowed_chunks: documents of a request at most, and chunks of all its documents.
        warnings: texts for the log.
    """

    model: TextModelOptions
    max_allowed_chunks: int
    warnings: tuple[str, ...] = ()

    @property
    def head(self) -> Mapping[str, Any]:
        """The settings of the model's head: a part of what is compiled."""
        return {"kind": "rerank"}


def read_rerank_options(node: NodePlan, settings: ResourceSettings) -> RerankOptions:
    """Check the options of a node, and the files that they name. Reads files: for a thread.

    Raises:
        ResourceError: with the node's name, the field, what is wrong, and what would be right.
    """
    with naming_node(node):
        options = find_model_options(node, OPTIONS_TYPE)
        if not options.max_allowed_chunks:
            raise ResourceError("max_allowed_chunks: must be at least 1")
        wanted: int | None = None
        if options.HasField("max_position_embeddings"):
            wanted = options.max_position_embeddings
            _check_length(wanted)
        model = read_text_model(
            options.models_path,
            options.target_device,
            options.plugin_config,
            settings.directory,
            usual_max_tokens=min(wanted or _USUAL_LENGTH, _LARGEST),
            exported_with="optimum-cli export openvino --task text-classification",
            settings=settings,
        )
        _check_length(model.max_tokens)
        warnings: tuple[str, ...] = ()
        if wanted is not None and wanted > model.max_tokens:
            warnings = (
                f"max_position_embeddings: the model takes {model.max_tokens} tokens, not {wanted}",
            )
        elif wanted is not None:
            model = replace(model, max_tokens=wanted)
        return RerankOptions(
            model=model,
            max_allowed_chunks=min(options.max_allowed_chunks, _LARGEST),
            warnings=warnings,
        )


def _check_length(max_tokens: int) -> None:
    if max_tokens <= 2 * _SPECIAL_TOKENS:
        raise ResourceError(
            "max_position_embeddings should be larger than 2 * NUMBER_OF_SPECIAL_TOKENS, which is "
            f"{2 * _SPECIAL_TOKENS}; it is {max_tokens}"
        )
