"""``num_assistant_tokens`` and its relatives: how many tokens are proposed at a time.

They change the speed of a model with a draft model or prompt look-up, and not its answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, honoured, table
from calculators.kit.requests.readers import COUNT, Number
from calculators.llm.engine.engine_settings import DecodingMode
from calculators.llm.engine.generation_settings import MAX_ASSISTANT_TOKENS

#: Source: OpenVINO Model Server ``llm/io_processing/base_generation_config_builder.cpp``.
DEFAULT_ASSISTANT_TOKENS: Final = 5
DEFAULT_NGRAM_SIZE: Final = 3
#: Longer matches hardly occur, and the search for them takes time.
MAX_NGRAM_SIZE: Final = 32

ASSISTED_MEMBERS: Final[Members] = table(
    honoured("num_assistant_tokens", COUNT),
    honoured("assistant_confidence_threshold", Number(minimum=0, maximum=1)),
    honoured("max_ngram_size", COUNT),
)


class AssistedDecoding(NamedTuple):
    """The values for `GenerationSettings`; all 0 if nothing is proposed."""

    num_assistant_tokens: int = 0
    assistant_confidence_threshold: float = 0.0
    max_ngram_size: int = 0


NOTHING_PROPOSED: Final = AssistedDecoding()


def read_assisted_decoding(body: Mapping[str, Any], mode: DecodingMode) -> AssistedDecoding:
    """Resolve the three members of a checked body; 0 asks for nothing.

    Raises:
        RequestError: one is wrong, or cannot be honoured by this model.
    """
    tokens = body.get("num_assistant_tokens")
    threshold = body.get("assistant_confidence_threshold")
    ngram = body.get("max_ngram_size")
    if tokens and threshold:
        raise fields.invalid(
            "num_assistant_tokens", f"{tokens} excludes assistant_confidence_threshold; give one"
        )
    if mode == "standard":
        _refuse_any(
            "this model is served without a draft model and without prompt look-up; leave it out",
            num_assistant_tokens=tokens,
            assistant_confidence_threshold=threshold,
            max_ngram_size=ngram,
        )
        return NOTHING_PROPOSED
    if tokens and tokens > MAX_ASSISTANT_TOKENS:
        raise fields.invalid(
            "num_assistant_tokens", f"{tokens} is above the maximum {MAX_ASSISTANT_TOKENS}"
        )
    if mode == "prompt_lookup":
        if threshold:
            raise fields.invalid(
                "assistant_confidence_threshold",
                "this model has no draft model but looks up its prompt; use num_assistant_tokens",
            )
        if ngram and ngram > MAX_NGRAM_SIZE:
            raise fields.invalid("max_ngram_size", f"{ngram} is above the maximum {MAX_NGRAM_SIZE}")
        return AssistedDecoding(
            tokens or DEFAULT_ASSISTANT_TOKENS, max_ngram_size=ngram or DEFAULT_NGRAM_SIZE
        )
    _refuse_any("it is for prompt look-up; this model has a draft model", max_ngram_size=ngram)
    if threshold:
        return AssistedDecoding(assistant_confidence_threshold=threshold)
    return AssistedDecoding(tokens or DEFAULT_ASSISTANT_TOKENS)


def _refuse_any(why: str, **values: float | None) -> None:
    for name, value in values.items():
        if value:
            raise fields.invalid(name, why)


def refuse_unassisted(
    mode: DecodingMode,
    assisted: AssistedDecoding,
    *,
    min_tokens: int | None,
    do_sample: bool,
) -> None:
    """Refuse settings that the engine's library ignores when tokens are proposed.

    ``mode``: one that proposes tokens. ``min_tokens``: of the request. ``do_sample``: the request
    samples.

    Raises:
        RequestError: with the member's name.
    """
    if min_tokens:
        raise fields.invalid(
            "min_tokens",
            f"{min_tokens} cannot be kept to with {_WORDS[mode]}, which this model is served with",
        )
    if assisted.assistant_confidence_threshold and do_sample:
        raise fields.invalid(
            "assistant_confidence_threshold",
            "it cannot be combined with sampling; set temperature to 0, or use "
            "num_assistant_tokens",
        )


_WORDS: Final[dict[DecodingMode, str]] = {
    "standard": "",
    "speculative": "a draft model",
    "eagle3": "a draft model",
    "prompt_lookup": "prompt look-up",
}
