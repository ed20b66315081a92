"""``draft_models_path`` and the other ``draft_*`` options; ``prompt_lookup`` of ``plugin_config``.

A small model proposes the next tokens, or they are looked up in the prompt, and the model itself
checks them all in one pass. Names, defaults and inheritance are OpenVINO Model Server's
(``llm/language_model/continuous_batching/servable_initializer.cpp``).

The two models exchange token ids, so their vocabularies must be the same. An EAGLE-3 draft also
reads hidden states of the main model; its files are checked as openvino.genai reads them
(``src/cpp/src/speculative_decoding/eagle3_model_transforms.cpp``).
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from calculators.kit.checkpoints.gguf import GgufFile
from calculators.llm.engine.settings import MAX_ASSISTANT_TOKENS, DraftModel, EngineSettings
from calculators.llm.model_files import find_model, read_json_object, read_model_length, sees_images
from graph_runtime import ResourceError
from graphrt_base.regular_file import MODEL_FILE_BYTES, read_regular_file
from protos import messages

if TYPE_CHECKING:
    from google.protobuf.message import Message

_TOKENIZER: Final = ("openvino_tokenizer.xml", "openvino_tokenizer.bin")


def check_same_vocabulary(draft: Path, main: Path, shown: str, *, padded: bool = False) -> None:
    """Check that a draft model has the main model's tokens, as far as the files list them.

    The engine's library only compares the number of tokens of one sentence.

    Args:
        shown: begins the message.
        padded: do not compare the sizes in ``config.json``, which may differ by padding.

    Raises:
        ResourceError: the tokens differ; the text has both numbers.
    """
    if all(_same_content(draft / name, main / name) for name in _TOKENIZER):
        return
    theirs, ours = read_tokens(draft), read_tokens(main)
    if theirs and ours:
        if theirs == ours:
            return
        number = next(
            i for i in sorted(theirs.keys() | ours.keys()) if theirs.get(i) != ours.get(i)
        )
        raise ResourceError(
            f"{shown} has another vocabulary: {len(theirs)} tokens, and the model in models_path "
            f"{len(ours)}; they differ first in token {number}. A draft model must have the same "
            "tokenizer"
        )
    if padded:
        return
    their_size, our_size = read_vocabulary_size(draft), read_vocabulary_size(main)
    if their_size and our_size and their_size != our_size:
        raise ResourceError(
            f"{shown} has another vocabulary: {their_size} tokens, and the model in models_path "
            f"{our_size}. A draft model must have the same tokenizer"
        )


def read_tokens(directory: Path) -> dict[int, str]:
    """Read the tokens by id from ``tokenizer.json`` or the header of a GGUF file.

    {} where they are missing, or of another form.
    """
    if directory.is_file():
        with contextlib.suppress(OSError, ResourceError):
            texts = GgufFile(directory).metadata.texts("tokenizer.ggml.tokens") or []
            return {i: text.decode("utf-8", "replace") for i, text in enumerate(texts)}
        return {}
    content = read_json_object(directory / "tokenizer.json")
    model = content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, list):
        tokens = {
            number: str(pair[0])
            for number, pair in enumerate(vocabulary)
            if isinstance(pair, list) and pair
        }
    elif isinstance(vocabulary, dict):
        tokens = {number: text for text, number in vocabulary.items() if type(number) is int}
    else:
        return {}
    added = content.get("added_tokens")
    for token in added if isinstance(added, list) else ():
        if isinstance(token, dict) and type(token.get("id")) is int:
            tokens[token["id"]] = str(token.get("content"))
    return tokens


def read_vocabulary_size(directory: Path) -> int | None:
    """Read the rows of the model's output from ``config.json``: maybe a few more than tokens."""
    if directory.is_file():
        return None
    config = read_json_object(directory / "config.json")
    inner = config.get("text_config")
    for each in (config, inner if isinstance(inner, dict) else {}):
        if type(each.get("vocab_size")) is int:
            return int(each["vocab_size"])
    return None


def _same_content(one: Path, other: Path) -> bool:
    try:
        return one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()
    except OSError:
        return False


_MODEL: Final = "openvino_model.xml"
#: Runtime information as OpenVINO writes it at the end of a model.
_MODE: Final = re.compile(rb'<eagle3_mode\s+value="(?:true|True|TRUE|1|YES)"')
_LAYERS: Final = re.compile(rb"<hidden_layers_list\b")
_HIDDEN: Final = re.compile(rb'<layer [^>]*name="[^"]*hidden_states[^"]*"[^>]* type="Parameter"')
#: Layers that the main model needs if the draft model does not say which three it reads.
MIN_LAYERS: Final = 10


def is_eagle3(draft: Path) -> bool:
    """Return True if the model's file declares EAGLE-3, which the engine's library reads too."""
    return _MODE.search(read_regular_file(draft / _MODEL, MODEL_FILE_BYTES)) is not None


def check_kind(draft: Path, shown: str) -> None:
    """Check that a draft model without EAGLE-3 is one of tokens. ``shown``: begins the message.

    Raises:
        ResourceError: it reads hidden states, as drafts of MTP and DFlash do.
    """
    if _HIDDEN.search(read_regular_file(draft / _MODEL, MODEL_FILE_BYTES)) is not None:
        raise ResourceError(
            f"{shown} reads hidden states of the main model and is no EAGLE-3 model; drafts of MTP "
            "and DFlash are not served. Use an EAGLE-3 model or a small model of the same tokens"
        )


def check_eagle3(draft: Path, main: Path, shown: str) -> None:
    """Check that a draft model can be used as one of EAGLE-3. ``shown``: begins the message.

    Raises:
        ResourceError: its files lack something; the text says what.
    """
    content = read_regular_file(draft / _MODEL, MODEL_FILE_BYTES)
    if _MODE.search(content) is None:
        raise ResourceError(
            f"{shown} is not an EAGLE-3 model: {_MODEL} has no runtime information eagle3_mode; "
            "export it as one, or leave out draft_eagle3_mode"
        )
    if _HIDDEN.search(content) is None:
        raise ResourceError(
            f"{shown} is not an EAGLE-3 model: {_MODEL} has no input hidden_states, from which it "
            "would read the main model's thoughts; export it again"
        )
    if _LAYERS.search(content) is None:
        layers = _layers(main)
        if layers < MIN_LAYERS:
            raise ResourceError(
                f"{shown} does not say which layers of the main model it reads (runtime "
                f"information hidden_layers_list), which it must unless that has {MIN_LAYERS} "
                f"layers; its config.json says {layers or 'nothing'}"
            )


def _layers(main: Path) -> int:
    config = read_json_object(main / "config.json")
    inner = config.get("text_config")
    value = config.get("num_hidden_layers") or (
        inner.get("num_hidden_layers") if isinstance(inner, dict) else 0
    )
    return value if type(value) is int else 0


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


def with_draft(
    engine: EngineSettings, options: messages.LLMCalculatorOptions, directory: Path
) -> EngineSettings:
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


def draft_warnings(engine: EngineSettings, options: messages.LLMCalculatorOptions) -> list[str]:
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


def _read_draft(
    engine: EngineSettings, options: messages.LLMCalculatorOptions, directory: Path
) -> DraftModel:
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
    elif path.is_dir():
        check_kind(path, shown)
    check_same_vocabulary(path, main, shown, padded=bool(eagle3))
    if options.HasField("draft_max_num_seqs") and options.draft_max_num_seqs == 0:
        raise ResourceError("draft_max_num_seqs: 0 leaves nothing to run; give at least 1")

    given: Message = options

    def inherited(name: str) -> Any:
        draft = f"draft_{name}"
        return getattr(options, draft if given.HasField(draft) else name)

    return DraftModel(
        path=str(path),
        device=options.draft_device,
        cache_size=inherited("cache_size"),
        max_num_seqs=inherited("max_num_seqs"),
        is_eagle3=eagle3,
    )


def _check_beside(field: str, options: messages.LLMCalculatorOptions) -> None:
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
