"""``draft_models_path`` and the other ``draft_*`` options; ``prompt_lookup`` of ``plugin_config``.

A small model proposes the next tokens, or they are looked up in the prompt, and the model itself
checks them all in one pass. Names, defaults and inheritance are OpenVINO Model Server's
(``llm/language_model/continuous_batching/servable_initializer.cpp``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from calculators.llm.engine.engine_settings import DraftModel, EngineSettings
from calculators.llm.engine.generation_settings import MAX_ASSISTANT_TOKENS
from calculators.llm.model_files.eagle3_files import check_eagle3, is_eagle3
from calculators.llm.model_files.model_files import find_model, sees_images
from calculators.llm.model_files.model_length import read_model_length
from calculators.llm.model_files.vocabulary import check_same_vocabulary
from graph_runtime import ResourceError

_FIELD: Final = "draft_models_path"
#: Options that only mean something with ``draft_models_path``.
_DRAFT: Final = (
    "draft_device",
    "draft_max_num_batched_tokens",
    "draft_cache_size",
    "draft_block_size",
    "draft_max_num_seqs",
    "draft_dynamic_split_fuse",
)
#: Options that the engine's library takes from the main model, or ignores.
_WITHOUT_EFFECT: Final = (
    "draft_max_num_batched_tokens",
    "draft_dynamic_split_fuse",
    "draft_block_size",
)
PROMPT_LOOKUP: Final = "prompt_lookup"


def with_draft(engine: EngineSettings, options: Any, directory: Path) -> EngineSettings:
    """Return the settings of a node with the draft model of its options, if there is one.

    Args:
        directory: of the graph.

    Raises:
        ResourceError: with the option's field, what is wrong and what would be right.
    """
    looks_up = engine.plugin_config.get(PROMPT_LOOKUP, False)
    if not isinstance(looks_up, bool):
        raise ResourceError(
            f"plugin_config: {PROMPT_LOOKUP}: must be true or false, not {str(looks_up)[:40]!r}"
        )
    if looks_up:
        if options.draft_models_path:
            raise ResourceError(
                f"{_FIELD}: not together with {PROMPT_LOOKUP} in plugin_config; candidates come "
                "from one or the other, leave one out"
            )
        _check_beside(f"plugin_config: {PROMPT_LOOKUP}", options)
    if not options.draft_models_path:
        given = [name for name in _DRAFT if options.HasField(name)]
        if options.draft_eagle3_mode:
            given.append("draft_eagle3_mode")
        if given:
            raise ResourceError(f"{given[0]}: options of a draft model need {_FIELD}")
        return engine
    _check_beside(_FIELD, options)
    draft = _read_draft(engine, options, directory)
    return _without_split(msgspec.structs.replace(engine, draft=draft))


def draft_warnings(engine: EngineSettings, options: Any) -> list[str]:
    """Return warnings about options without effect."""
    if engine.draft is None:
        return []
    found = [
        f"{name}: no effect; the engine takes it from the main model, or has no use for it"
        for name in _WITHOUT_EFFECT
        if options.HasField(name)
    ]
    if options.HasField("dynamic_split_fuse") and options.dynamic_split_fuse:
        found.append("dynamic_split_fuse: no effect with a draft model; prompts are not split")
    return found


def _read_draft(engine: EngineSettings, options: Any, directory: Path) -> DraftModel:
    if engine.kind.sees_images:
        raise ResourceError(
            f"{_FIELD}: the model in models_path sees images, and such models are served without "
            "a draft model; leave it out"
        )
    path = find_model(options.draft_models_path, directory, field=_FIELD)
    shown = f'{_FIELD}: "{options.draft_models_path}"'
    if sees_images(path):
        raise ResourceError(f"{shown} sees images; a draft model must be one of text only")
    main = Path(engine.model_path)
    eagle3 = path.is_dir() and is_eagle3(path)
    if options.draft_eagle3_mode or eagle3:
        check_eagle3(path, main, shown)
    check_same_vocabulary(path, main, shown, padded=bool(eagle3))
    if options.HasField("draft_max_num_seqs") and options.draft_max_num_seqs == 0:
        raise ResourceError("draft_max_num_seqs: 0 leaves nothing to run; give at least 1")

    def inherited(name: str) -> Any:
        draft = f"draft_{name}"
        return getattr(options, draft if options.HasField(draft) else name)

    return DraftModel(
        path=str(path),
        device=options.draft_device,
        cache_size=inherited("cache_size"),
        max_num_seqs=inherited("max_num_seqs"),
        is_eagle3=eagle3,
    )


def _check_beside(field: str, options: Any) -> None:
    """Refuse what the engine stops at, or gives wrong answers with, when tokens are proposed."""
    if options.HasField("cache_eviction_config"):
        raise ResourceError(
            f"{field}: not together with cache_eviction_config, at which the engine would stop"
        )
    if options.HasField("sparse_attention_config") and field == _FIELD:
        raise ResourceError(
            f"{field}: not together with sparse_attention_config: the engine has no XATTENTION "
            "with a draft model, and prompts are not split, which TRISHAPE is for"
        )
    if options.adapters:
        raise ResourceError(f"{field}: not together with adapters; leave one out")


def _without_split(engine: EngineSettings) -> EngineSettings:
    """Return settings with room for whole prompts, and for all candidates of all requests.

    In openvino-genai 2026.4 the two models diverge, and answers are wrong, when a prompt is split
    or when only some candidates of a request fit into a pass.
    """
    length = read_model_length(Path(engine.model_path)) or 0
    candidates = engine.max_num_seqs * (MAX_ASSISTANT_TOKENS + 1)
    return msgspec.structs.replace(
        engine,
        dynamic_split_fuse=False,
        max_num_batched_tokens=max(engine.max_num_batched_tokens, length, candidates),
    )
