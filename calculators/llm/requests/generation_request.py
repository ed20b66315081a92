"""The members that endpoints share, and what requests to all that generate have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from calculators.kit.requests import fields
from calculators.kit.requests.common_members import EVERYWHERE, read_model
from calculators.kit.requests.members import (
    Members,
    honoured,
    ignored,
    left_out,
    read_members,
    refused,
    table,
)
from calculators.kit.requests.readers import BOOLEAN
from calculators.language.structured_output import StructuredOutput
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.requests.assisted_decoding import ASSISTED_MEMBERS
from calculators.llm.requests.choices import CHOICE_MEMBERS
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.sampling import MAX_TOKENS_NAMES, SAMPLING_MEMBERS, read_sampling
from calculators.llm.requests.stop_conditions import STOP_MEMBERS
from calculators.llm.requests.streaming_options import STREAMING_MEMBERS, read_streaming_options
from calculators.llm.requests.structured_output import (
    STRUCTURED_MEMBERS,
    read_structured_output,
)
from calculators.llm.requests.truncation import (
    TRUNCATES,
    TRUNCATION_MEMBERS,
    Truncation,
    read_truncation,
)
from calculators.llm.requests.unsupported import CHECKED_MEMBERS

#: Members that every endpoint that generates has.
GENERATING: Final[Members] = table(
    EVERYWHERE,
    SAMPLING_MEMBERS,
    CHOICE_MEMBERS,
    STOP_MEMBERS,
    ASSISTED_MEMBERS,
    STREAMING_MEMBERS,
    STRUCTURED_MEMBERS,
    TRUNCATION_MEMBERS,
    CHECKED_MEMBERS,
    ignored(
        "says who asks, or what is kept or counted elsewhere",
        "metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention "
        "prompt_cache_options client_metadata cache_salt priority request_id kv_transfer_params",
    ),
    ignored("is about how, not what, is generated", "guided_decoding_backend"),
    ignored(
        "changes nothing: there are only the spaces that the model writes",
        "spaces_between_special_tokens",
    ),
    refused("is not supported; use tools", "functions"),
    refused("is not supported: prompts are text or token ids", "prompt_embeds"),
    refused("is not supported; completions with echo and logprobs give them", "prompt_logprobs"),
    refused("is not accepted from a request: the model's own template is used", "chat_template"),
    refused("is not supported; continue a text with /completions", "continue_final_message"),
    refused(
        "is not supported",
        "suffix bad_words allowed_token_ids return_tokens_as_token_ids guided_whitespace_pattern "
        "repetition_detection",
    ),
    refused("is not accepted from a request", "logits_processors"),
    refused("is not supported; use best_of", "use_beam_search"),
    refused("is not supported; use reasoning_effort", "thinking_token_budget"),
    refused("is one of /chat/completions and /completions", "return_token_ids"),
    left_out("is not supported: this server searches nothing", "web_search_options"),
    refused("is not supported: nothing is moderated here", "moderation"),
    refused("is not supported by this engine", "logit_bias", may_be_empty=True),
    refused(
        "is not supported", "mm_processor_kwargs media_io_kwargs vllm_xargs", may_be_empty=True
    ),
)

#: Asks for token ids, in the endpoints of OpenAI that vLLM has it in.
TOKEN_IDS_MEMBER: Final = honoured(
    "return_token_ids",
    BOOLEAN,
    "The answer has `prompt_token_ids`, and `token_ids` in each choice. In a stream the first event"
    " of an answer has those of the prompt, and every event those of the tokens since the last.",
)

#: Members of other servers and libraries, and the member that has their effect here.
ELSEWHERE: Final = {
    "extra_body": "that is an argument of OpenAI's client; its members stand in the body itself",
    "max_new_tokens": 'use "max_tokens"',
    "n_predict": 'use "max_tokens"',
    "num_predict": 'use "max_tokens"',
    "random_seed": 'use "seed"',
    "think": 'use "enable_thinking", or "reasoning_effort"',
}


class GenerationRequest(Struct, frozen=True, kw_only=True):
    """A checked request: how to generate, and how to write what is generated.

    Attributes:
        model: as the client named it; goes into the answer.
        stream: answer with events.
        include_usage: the last event has the usage.
        has_running_usage: so has every event; only with ``include_usage``.
        returns_token_ids: the answer has the token ids of prompt and choices.
        truncation: the cut of a prompt that is too long; None: it is refused.
        limits_itself: the limit of new tokens is the client's own choice. Otherwise the answer may
            have fewer where prompt and limit together are longer than the model.
        n: answers per prompt. ``settings.num_return_sequences`` is what the engine makes: where
            that is 1 and ``n`` is more, all ``n`` are the same and the caller copies.
        settings: for the engine.
        include_stop_str_in_output: leave the stop string that ended an answer in its text.
        skip_special_tokens: leave out the text of special tokens.
        structured: the form that the answer must have; None is any text.
    """

    model: str
    stream: bool = False
    include_usage: bool = False
    has_running_usage: bool = False
    returns_token_ids: bool = False
    truncation: Truncation | None = None
    limits_itself: bool = True
    n: int = 1
    settings: GenerationSettings
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    structured: StructuredOutput | None = None


def read_body(value: object, members: Members) -> dict[str, Any]:
    """Return the members of a parsed body that have an effect, as their readers return them.

    None of them is None.

    Raises:
        RequestError: the body is no object; else the first member that is not one of ``members``,
            else the first one that is refused or wrong, with its name as ``param``.
    """
    return read_members(fields.body_object(value), members, lambda name: ELSEWHERE.get(name, ""))


def read_generation(
    body: Mapping[str, Any],
    defaults: ModelDefaults,
    limits: RequestLimits,
    *,
    needs_max_tokens: bool = False,
    may_echo: bool = False,
) -> GenerationRequest:
    """Resolve the members of a checked body that all endpoints share; see `read_sampling`.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    model = read_model(body)
    streaming = read_streaming_options(body)
    return GenerationRequest(
        model=model,
        stream=streaming.stream,
        include_usage=streaming.include_usage,
        has_running_usage=streaming.has_running_usage,
        returns_token_ids=body.get("return_token_ids", False),
        truncation=read_truncation(body) if TRUNCATES in body else None,
        # A number that every request must have may be a default of the client's library:
        # Vercel's provider for Anthropic sends 4096 to models that it does not know.
        limits_itself=not needs_max_tokens and not MAX_TOKENS_NAMES.isdisjoint(body),
        settings=read_sampling(
            body, defaults, limits, needs_max_tokens=needs_max_tokens, may_echo=may_echo
        ),
        n=body.get("n", 1),
        include_stop_str_in_output=body.get(
            "include_stop_str_in_output", bool(defaults.include_stop_str_in_output)
        ),
        skip_special_tokens=body.get("skip_special_tokens", True),
        structured=None
        if STRUCTURED_MEMBERS.keys().isdisjoint(body)
        else read_structured_output(body),
    )
