"""Requests to ``/completions``: members, reader and the checked request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, honoured, table
from calculators.kit.requests.readers import BOOLEAN, TOKEN_ID, Value
from calculators.kit.requests.schema import array, one_of, string
from calculators.llm.requests.generation_request import (
    GENERATING,
    TOKEN_IDS_MEMBER,
    GenerationRequest,
    read_body,
    read_generation,
)
from calculators.llm.requests.logprobs import COMPLETION_LOGPROBS_MEMBERS
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from calculators.llm.requests.sampling import max_tokens_member
from calculators.llm.requests.stop_conditions import read_token_id, stop_member

_PROMPT_TEXT: Final = string(minLength=1)
_PROMPT_IDS: Final = array(TOKEN_ID.schema(""), minItems=1)
COMPLETION_MEMBERS: Final[Members] = table(
    GENERATING,
    COMPLETION_LOGPROBS_MEMBERS,
    honoured(
        "prompt",
        Value(
            one_of(
                _PROMPT_TEXT,
                array(_PROMPT_TEXT, minItems=1, maxItems=LIMITS.max_prompts),
                _PROMPT_IDS,
                array(_PROMPT_IDS, minItems=1, maxItems=LIMITS.max_prompts),
            )
        ),
        "A text, or the ids of its tokens; or several of either.",
        is_required=True,
    ),
    max_tokens_member(about="How many tokens the answer may have; 0 only with `echo`.", least=0),
    TOKEN_IDS_MEMBER,
    stop_member("stop"),
    honoured("echo", BOOLEAN, "Each answer begins with its prompt."),
    honoured("add_special_tokens", BOOLEAN),
)

#: A text, or the ids of its tokens; not empty.
Prompt = str | tuple[int, ...]


class CompletionRequest(GenerationRequest, frozen=True, kw_only=True):
    """A checked completion request.

    Attributes:
        prompts: each has ``n`` answers; the choices are numbered prompt by prompt. Token ids are
            not negative, but may be beyond the vocabulary.
        logprobs: None: without log-probabilities; 0: with that of each token; 1: repeated under
            ``top_logprobs``.
        add_special_tokens: add the tokens that the model expects at the beginning of a text.
    """

    prompts: tuple[Prompt, ...]
    logprobs: int | None = None
    add_special_tokens: bool = True

    @property
    def echo(self) -> bool:
        """True if each answer begins with its prompt."""
        return self.settings.echo


def parse_completion_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> CompletionRequest:
    """Check a parsed body.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    if isinstance(value, dict) and "messages" in value and value.get("prompt") is None:
        raise fields.missing("prompt", "messages are for /v3/chat/completions")
    body = read_body(value, COMPLETION_MEMBERS)
    return CompletionRequest(
        **structs.asdict(read_generation(body, defaults, limits, may_echo=True)),
        prompts=_read_prompts(body, limits),
        logprobs=body.get("logprobs"),
        add_special_tokens=body.get("add_special_tokens", True),
    )


def _read_prompts(body: Mapping[str, Any], limits: RequestLimits) -> tuple[Prompt, ...]:
    """Read a string, an array of strings, an array of ids, or an array of arrays of ids."""
    value = body.get("prompt")
    if value is None:
        raise fields.missing("prompt")
    if isinstance(value, str):
        return (_check_text("prompt", value),)
    if not isinstance(value, list):
        raise fields.wrong_type("prompt", "a string or an array", value)
    if not value:
        raise fields.invalid("prompt", "an empty array holds no prompt")
    if type(value[0]) in (int, float, bool):
        return (_check_ids("prompt", value),)
    if len(value) > limits.max_prompts:
        raise fields.invalid(
            "prompt", f"{len(value)} prompts are more than the maximum {limits.max_prompts}"
        )
    if isinstance(value[0], str):
        return tuple(_check_text(f"prompt[{i}]", text) for i, text in enumerate(value))
    return tuple(_check_ids(f"prompt[{i}]", ids) for i, ids in enumerate(value))


def _check_text(path: str, text: object) -> str:
    if not isinstance(text, str):
        raise fields.wrong_type(path, "a string", text)
    if not text:
        raise fields.invalid(path, "the prompt is empty")
    return text


def _check_ids(path: str, ids: object) -> tuple[int, ...]:
    if not isinstance(ids, list):
        raise fields.wrong_type(path, "an array of token ids", ids)
    if not ids:
        raise fields.invalid(path, "the prompt is empty")
    # A prompt may have 100,000 ids: read them one by one only to name the bad one.
    if set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) > fields.INT32_MAX:
        return tuple(read_token_id(f"{path}[{i}]", token) for i, token in enumerate(ids))
    return tuple(ids)
