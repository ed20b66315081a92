"""Members that the bodies of all endpoints that generate share."""

from __future__ import annotations

from typing import Final

from calculators.llm.requests.assisted_decoding import ASSISTED_MEMBERS
from calculators.llm.requests.choices import CHOICE_MEMBERS
from calculators.llm.requests.sampling import SAMPLING_MEMBERS
from calculators.llm.requests.stop_conditions import STOP_MEMBERS
from calculators.llm.requests.streaming_options import STREAMING_MEMBERS
from calculators.llm.requests.structured_output import STRUCTURED_MEMBERS
from calculators.llm.requests.unsupported import CHECKED_MEMBERS
from calculators.requests.members import Members, honoured, ignored, refused, table
from calculators.requests.readers import STRING, Value

#: Of endpoints that generate, and of those that do not.
EVERYWHERE: Final[Members] = table(
    honoured(
        "model",
        STRING,
        "The name of a model or graph that is served.",
        is_required=True,
        minLength=1,
    ),
    honoured("timeout", Value()),  # the front reads it, and knows the schema
)

GENERATING: Final[Members] = table(
    EVERYWHERE,
    SAMPLING_MEMBERS,
    CHOICE_MEMBERS,
    STOP_MEMBERS,
    ASSISTED_MEMBERS,
    STREAMING_MEMBERS,
    STRUCTURED_MEMBERS,
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
    refused("is not supported: a prompt is taken whole or refused", "truncate_prompt_tokens"),
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
    refused("is not supported; use /tokenize", "return_token_ids"),
    refused("is not supported: this server searches nothing", "web_search_options"),
    refused("is not supported: nothing is moderated here", "moderation"),
    refused("is not supported by this engine", "logit_bias", may_be_empty=True),
    refused(
        "is not supported", "mm_processor_kwargs media_io_kwargs vllm_xargs", may_be_empty=True
    ),
)
