"""`GenerationSettings`: the sampling of one request, in openvino-genai's terms."""

from __future__ import annotations

from typing import Final

import msgspec

from calculators.llm.grammars.grammar import Grammar

#: Candidates of one pass. More are hardly ever right, and delay all other requests.
MAX_ASSISTANT_TOKENS: Final = 32


class GenerationSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The resolved sampling of one request: request over ``generation_config.json`` over default.

    Names and meaning are those of openvino-genai's ``GenerationConfig``, which is given every field
    that is not None (`calculators.llm.engine.library_config`). Stop strings end the generation;
    their text is part of what the engine returns, and is cut where text is made.

    Attributes:
        max_new_tokens: None: until the model ends, or its length is used up.
        max_length: tokens of prompt and answer together, for prompts with images, which only the
            engine can count. Then ``max_new_tokens`` may be None for the rest.
        is_shortened: where ``max_length`` leaves less than ``max_new_tokens``, the answer gets the
            rest; else the request is refused.
        top_k: None is no limit.
        rng_seed: 32 bits; always given when ``do_sample``.
        logprobs: return the log-probability of each chosen token.
        echo: let the prompt's tokens come first, with their log-probabilities when asked for.
        stop_token_ids: None is the model's own end tokens; else all that end the generation.
        grammar: the form of the answer; proven, see `calculators.llm.grammars`. Not with beams,
            ``ignore_eos`` or ``min_new_tokens``, with which the engine would not follow it.
        adapter: name of the LoRA adapter that answers; "" is none, the model itself.
        num_assistant_tokens: candidates of one pass. Where a draft model or the prompt proposes
            tokens, this or ``assistant_confidence_threshold`` is above 0.
        assistant_confidence_threshold: confidence down to which a draft model proposes, 0..1.
        max_ngram_size: the most last tokens that are looked up in the prompt.
    """

    max_new_tokens: int | None = None
    max_length: int | None = None
    is_shortened: bool = False
    min_new_tokens: int = 0
    ignore_eos: bool = False
    stop_strings: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] | None = None
    do_sample: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    rng_seed: int | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    length_penalty: float | None = None
    num_beams: int = 1
    num_return_sequences: int = 1
    logprobs: bool = False
    echo: bool = False
    grammar: Grammar | None = None
    num_assistant_tokens: int = 0
    assistant_confidence_threshold: float = 0.0
    max_ngram_size: int = 0
    adapter: str = ""
