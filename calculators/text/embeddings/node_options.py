"""An embeddings node's options, checked: `EmbeddingsCalculatorOVOptions`.

Names, defaults and their meaning are OpenVINO Model Server's
(``embeddings/embeddings_servable.cpp``, ``sidepacket_servable.cpp``); the words are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from calculators.kit.model_directory import read_checked_json
from calculators.kit.tasks.options import find_model_options, naming_node
from calculators.text.text_models.model_options import TextModelOptions, read_text_model
from graph_runtime import NodePlan, ResourceSettings

OPTIONS_TYPE: Final = "mediapipe.EmbeddingsCalculatorOVOptions"

_POOLING: Final = {
    "pooling_mode_cls_token": "CLS",
    "pooling_mode_mean_tokens": "MEAN",
    "pooling_mode_lasttoken": "LAST",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsOptions:
    """The options of one node.

    Attributes:
        model: the model, and how it is computed.
        pooling: "CLS", "LAST" or "MEAN".
        normalizes: scale embeddings to length 1.
        truncates: cut longer texts off; otherwise they are refused.
        prompts: texts that the model expects before those to embed, by name.
        default_prompt: the name of the prompt where a request names none; "": no prompt.
        warnings: texts for the log.
    """

    model: TextModelOptions
    pooling: str
    normalizes: bool
    truncates: bool
    prompts: Mapping[str, str]
    default_prompt: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def head(self) -> Mapping[str, Any]:
        """The settings of the model's head: a part of what is compiled."""
        return {"pooling": self.pooling}


def read_embeddings_options(node: NodePlan, settings: ResourceSettings) -> EmbeddingsOptions:
    """Check the options of a node, and the files that they name.

    Raises:
        ResourceError: with the node's name, the field, what is wrong, and what would be right.
    """
    with naming_node(node):
        return _read(find_model_options(node, OPTIONS_TYPE), settings)


def _read(options: Any, settings: ResourceSettings) -> EmbeddingsOptions:
    pooling: str = ""
    if options.HasField("pooling"):
        pooling = type(options).Pooling.Name(options.pooling)
    return embeddings_options(
        options.models_path,
        settings.directory,
        target_device=options.target_device,
        plugin_config=options.plugin_config,
        pooling=pooling,
        normalizes=options.normalize_embeddings,
        truncates=options.truncate,
        settings=settings,
    )


def embeddings_options(
    models_path: str,
    graph_directory: Path,
    *,
    target_device: str = "",
    plugin_config: str = "",
    pooling: str = "",
    normalizes: bool = True,
    truncates: bool = False,
    settings: ResourceSettings | None = None,
) -> EmbeddingsOptions:
    """Check options, and the files that they name.

    Args:
        models_path: the model's directory or GGUF file, relative to ``graph_directory``.
        pooling: "CLS", "LAST" or "MEAN"; "": as the model's files say.
        settings: name the cache of converted GGUF files; None: it is the user's.

    Raises:
        ResourceError: with the field, what is wrong, and what would be right.
    """
    model = read_text_model(
        models_path, target_device, plugin_config, graph_directory, settings=settings
    )
    warnings: tuple[str, ...] = ()
    if not pooling:
        pooling, warnings = _pooling_of(model.directory)
    prompts, default = _prompts_of(model.directory)
    return EmbeddingsOptions(
        model=model,
        pooling=pooling,
        normalizes=normalizes,
        truncates=truncates,
        prompts=prompts,
        default_prompt=default,
        warnings=warnings,
    )


def _pooling_of(directory: Path) -> tuple[str, tuple[str, ...]]:
    """The pooling of the model's own files, with a warning if they name none that is supported."""
    config = read_checked_json(directory / "1_Pooling" / "config.json")
    asked = sorted(
        name for name, value in config.items() if name.startswith("pooling_mode_") and value is True
    )
    if len(asked) == 1 and asked[0] in _POOLING:
        return _POOLING[asked[0]], ()
    said = f"asks for {', '.join(asked)}" if asked else "does not say which"
    return "CLS", (
        f"pooling: 1_Pooling/config.json {said}: CLS is taken; set pooling to CLS, LAST or MEAN",
    )


def _prompts_of(directory: Path) -> tuple[Mapping[str, str], str]:
    """Return the prompts by name, and the name of the default one, as sentence-transformers."""
    config = read_checked_json(directory / "config_sentence_transformers.json")
    found = config.get("prompts")
    prompts = {
        name: text
        for name, text in (found.items() if isinstance(found, dict) else ())
        if isinstance(text, str)
    }
    default = config.get("default_prompt_name")
    return prompts, default if isinstance(default, str) and default in prompts else ""
