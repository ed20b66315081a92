"""`RequestLimits`: the limits of one request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calculators.llm.engine.settings import DecodingMode


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """The limits of one request, all inclusive.

    Attributes:
        max_tokens_limit: new tokens of an answer, and the default for requests that set no limit;
            the option of that name. None: unlimited.
        decoding_mode: how tokens are proposed; some members cannot be combined with it.
        best_of_limit: beams; the option of that name.
        max_model_length: tokens of prompt and answer together, from the model's ``config.json``;
            None if unknown.
        max_choices: ``n`` of a request without ``best_of``.
        max_stop_strings: strings in ``stop``.
        max_stop_length: characters of one string in ``stop``.
        max_stop_token_ids: ids in ``stop_token_ids``.
        max_tools: tools in a chat request.
        max_messages: messages in a chat request.
        max_prompts: prompts in a completion request.
        max_images: images in a chat request; 0 for a model that reads only text.
        max_videos: how many of them may be videos; 0 for a model that takes none.
        max_sounds: sounds in a chat request; 0 for a model that does not hear.
        voices: the voices that can answer; none for a model that does not speak, and None where
            they are not known.
        has_logprobs: the engine reports log-probabilities.
        has_beams: the engine has beam search.
        may_get_tools: a node may add tools, so a choice need not be among the client's.
    """

    max_tokens_limit: int | None = None
    decoding_mode: DecodingMode = "standard"
    best_of_limit: int = 20
    max_model_length: int | None = None
    max_choices: int = 16
    max_stop_strings: int = 16
    max_stop_length: int = 256
    max_stop_token_ids: int = 128
    max_tools: int = 1024
    max_messages: int = 4096
    max_prompts: int = 64
    max_images: int = 0
    max_videos: int = 0
    max_sounds: int = 0
    voices: tuple[str, ...] | None = ()
    has_logprobs: bool = True
    has_beams: bool = True
    may_get_tools: bool = False


#: The limits without a graph's options and a model's files.
LIMITS: Final = RequestLimits()
