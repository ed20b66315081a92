"""The members of request bodies: every name that an endpoint knows, and what becomes of it.

A name that an endpoint does not know is refused unless its value is null, which is as good as
absent: a misspelt one would change nothing, silently.
This is the one declaration of names; their values are checked where they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, auto
from typing import Any, Final

from calculators.llm.requests.endpoint import Endpoint
from calculators.requests import fields
from calculators.requests.http_payload import RequestError
from graph_runtime.errors import did_you_mean

#: OpenAI's word for programs.
UNKNOWN: Final = "unknown_parameter"
_SHOWN: Final = 64
#: So much alike are words that differ by a slip, by `difflib`'s measure.
_ALIKE: Final = 0.85


class Standing(Enum):
    """What becomes of a member."""

    HONOURED = auto()
    WITHOUT_EFFECT = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a body.

    Attributes:
        standing: honoured members have a reader that checks them.
        why: it has no effect, or is refused; completes "the member ...". "" for honoured ones.
        may_be_empty: a refused one that asks for nothing with an empty object. Null, false, an
            empty text and an empty array ask for nothing anyway; 0 asks for something.
    """

    standing: Standing
    why: str = ""
    may_be_empty: bool = False

    def asks(self, value: object) -> bool:
        """Does a refused member ask for something with this value?"""
        if value is None or value is False or value in ("", []):
            return False
        return not (self.may_be_empty and value == {})


Members = Mapping[str, Member]


def _honoured(names: str) -> dict[str, Member]:
    return {name: Member(Standing.HONOURED) for name in names.split()}


def _ignored(why: str, names: str) -> dict[str, Member]:
    return {name: Member(Standing.WITHOUT_EFFECT, why) for name in names.split()}


def _refused(why: str, names: str, *, may_be_empty: bool = False) -> dict[str, Member]:
    return {name: Member(Standing.REFUSED, why, may_be_empty) for name in names.split()}


_EVERYWHERE: Final = _honoured("model timeout")

#: Who asks, where it goes, what is kept of it.
_ABOUT_THE_CALLER: Final = _ignored(
    "says who asks, or what is kept or counted elsewhere",
    "metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention "
    "prompt_cache_options client_metadata cache_salt priority request_id kv_transfer_params",
)

_GENERATING: Final[Members] = {
    **_EVERYWHERE,
    **_ABOUT_THE_CALLER,
    **_honoured(
        # How answers are chosen, and what ends them.
        "temperature top_p min_p top_k seed frequency_penalty presence_penalty repetition_penalty "
        "length_penalty n best_of min_tokens ignore_eos stop_token_ids include_stop_str_in_output "
        "num_assistant_tokens assistant_confidence_threshold max_ngram_size "
        # What they look like, and how they come.
        "stream stream_options skip_special_tokens response_format guided_json guided_regex "
        "guided_choice guided_grammar structural_tag structured_outputs "
        # Checked, and without an effect where nobody speaks.
        "modalities audio chunk_frames user"
    ),
    **_ignored("is about how, not what, is generated", "guided_decoding_backend"),
    **_ignored(
        "changes nothing: there are only the spaces that the model writes",
        "spaces_between_special_tokens",
    ),
    **_refused("is not supported; use tools", "functions"),
    **_refused("is not supported: prompts are text or token ids", "prompt_embeds"),
    **_refused("is not supported; completions with echo and logprobs give them", "prompt_logprobs"),
    **_refused("is not supported: a prompt is taken whole or refused", "truncate_prompt_tokens"),
    **_refused("is not accepted from a request: the model's own template is used", "chat_template"),
    **_refused("is not supported; continue a text with /completions", "continue_final_message"),
    **_refused(
        "is not supported",
        "suffix bad_words allowed_token_ids return_tokens_as_token_ids guided_whitespace_pattern "
        "repetition_detection",
    ),
    **_refused("is not accepted from a request", "logits_processors"),
    **_refused("is not supported; use best_of", "use_beam_search"),
    **_refused("is not supported; use reasoning_effort", "thinking_token_budget"),
    **_refused("is not supported; use /tokenize", "return_token_ids"),
    **_refused("is not supported: this server searches nothing", "web_search_options"),
    **_refused("is not supported: nothing is moderated here", "moderation"),
    **_refused("is not supported by this engine", "logit_bias", may_be_empty=True),
    **_refused(
        "is not supported", "mm_processor_kwargs media_io_kwargs vllm_xargs", may_be_empty=True
    ),
}

#: Of the endpoints with a chat template.
_TEMPLATED: Final = _honoured(
    "chat_template_kwargs add_generation_prompt enable_thinking reasoning_effort verbosity "
    "documents"
)
_WITH_TOOLS: Final = _honoured("tools tool_choice parallel_tool_calls logprobs top_logprobs")

_ANTHROPIC_CALLER: Final = {
    **_ignored("is about caches; prefixes are cached without being asked", "cache_control"),
    **_ignored("is a header in Anthropic's API", "betas anthropic_beta anthropic_version"),
    **_ignored("changes nothing: the conversation is taken whole", "context_management"),
    **_ignored("is about how soon an answer comes", "speed"),
    **_ignored(
        "says who asks, or what is kept or counted elsewhere",
        "metadata service_tier user_profile_id workspace_id billing_policy diagnostics "
        "fallback_credit_token",
    ),
    **_ignored("changes nothing: no other model answers instead", "fallbacks"),
    **_refused("is not supported: the model runs where this server runs", "inference_geo"),
}
_CONVERSATION: Final = _honoured("messages system tools tool_choice thinking output_config")

#: By endpoint all members that it knows.
MEMBERS: Final[Mapping[Endpoint, Members]] = {
    Endpoint.CHAT_COMPLETIONS: {
        **_GENERATING,
        **_TEMPLATED,
        **_WITH_TOOLS,
        **_honoured("messages max_tokens max_completion_tokens stop function_call"),
        **_honoured("include_reasoning"),
        **_ignored("is about how soon an answer comes", "prediction"),
        **_refused("is for /completions", "echo"),
        **_refused(
            "is not supported: the chat template writes those that are needed",
            "add_special_tokens",
        ),
    },
    Endpoint.COMPLETIONS: {
        **_GENERATING,
        **_honoured("prompt max_tokens stop echo logprobs add_special_tokens"),
    },
    Endpoint.RESPONSES: {
        **_GENERATING,
        **_TEMPLATED,
        **_WITH_TOOLS,
        **_honoured("input instructions max_output_tokens stop include text reasoning"),
        **_honoured("max_tool_calls truncation store metadata prompt_cache_key safety_identifier"),
        **_ignored("changes nothing: the conversation is taken whole", "context_management"),
        **_refused(
            "is not supported: no response is stored; send the earlier items as input",
            "previous_response_id",
        ),
        **_refused(
            "is not supported: no conversation is stored; send the earlier items as input",
            "conversation",
        ),
        **_refused(
            "is not supported: no prompt template is stored; send instructions and input",
            "prompt",
        ),
        **_refused(
            "is not supported: a response is not made in the background; use stream", "background"
        ),
        **_refused("is not one of responses; use max_output_tokens", "max_tokens"),
    },
    Endpoint.MESSAGES: {
        **_GENERATING,
        **_TEMPLATED,
        **_CONVERSATION,
        **_ANTHROPIC_CALLER,
        **_honoured("max_tokens stop_sequences output_format"),
        **_refused("is not one of Anthropic's; use stop_sequences", "stop"),
        **_honoured("mcp_servers thread compaction container"),  # read, to be refused in its words
    },
    Endpoint.COUNT_TOKENS: {
        **_EVERYWHERE,
        **_TEMPLATED,
        **_CONVERSATION,
        **_ANTHROPIC_CALLER,
        **_ignored("does not change how many tokens there are", "output_format mcp_servers"),
        **_refused("is not supported", "compaction"),
    },
    Endpoint.TOKENIZE: {
        **_EVERYWHERE,
        **_honoured("text add_special_tokens max_length pad_to_max_length padding_side"),
    },
}

#: What other servers and libraries call something, and what says it here.
_ELSEWHERE: Final = {
    "extra_body": "that is an argument of OpenAI's client; its members stand in the body itself",
    "max_new_tokens": 'use "max_tokens"',
    "n_predict": 'use "max_tokens"',
    "num_predict": 'use "max_tokens"',
    "random_seed": 'use "seed"',
    "think": 'use "enable_thinking", or "reasoning_effort"',
    "thinking": 'use "enable_thinking", or "reasoning_effort"',
}


def check_members(body: Mapping[str, Any], endpoint: Endpoint) -> None:
    """Refuse members that ``endpoint`` does not know, and those it knows and cannot honour.

    Raises:
        RequestError: with the member as ``param``; the first unknown one, else the first refused.
    """
    known = MEMBERS[endpoint]
    if not body.keys() <= known.keys():
        for name, value in body.items():
            if name not in known and value is not None:
                raise unknown(name, known, _hint(name, endpoint))
    for name, value in body.items():
        member = known.get(name)
        if member is not None and member.standing is Standing.REFUSED and member.asks(value):
            raise fields.invalid(name, f"the member {member.why}")


def check_object(value: Mapping[str, Any], path: str, known: Iterable[str]) -> None:
    """Refuse members of the object at ``path`` that are not known.

    Raises:
        RequestError: with the path of the first of them.
    """
    known = tuple(known)
    for name, inner in value.items():
        if name not in known and inner is not None:
            raise unknown(name, known, path=path)


def check_spelling(value: Mapping[str, Any], path: str, known: Iterable[str]) -> None:
    """Refuse what looks like a misspelt member of an object that may have any others.

    Raises:
        RequestError: with the path of the first of them.
    """
    known = tuple(known)
    missing = [name for name in known if name not in value]
    for name in value:
        if name not in known and get_close_matches(name[:_SHOWN], missing, n=1, cutoff=_ALIKE):
            raise unknown(name, missing, path=path)


def unknown(name: str, known: Iterable[str], hint: str = "", *, path: str = "") -> RequestError:
    """The error of a member that is not known, with the known names that are nearest."""
    short = name[:_SHOWN]
    place = f"{path}.{short}" if path else short
    told = f"; {hint}" if hint else ""
    near = did_you_mean(short, known)
    return RequestError(
        f'Unknown member "{place}"{told}{"." if near else ""}{near}',
        param=place,
        reason=UNKNOWN,
        detail="unknown member",
    )


def _hint(name: str, endpoint: Endpoint) -> str:
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    for other, members in MEMBERS.items():
        if name in members and members[name].standing is not Standing.REFUSED:
            return f"{other} has it, {endpoint} does not"
    return ""
