"""Agreement with the engine: it refuses no accepted request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.requests.completions_request import (
    parse_chat_request,
    parse_completion_request,
)
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.sampling import fit_to_model
from tests.calculators.llm.api.openai.bodies import chat_body, completion_body

pytest.importorskip("openvino_genai")

_NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 2, 0.5, 1.0, 1e-60, 1e-40, 1e300, 0.9999999999, 1.0000000001]),
    st.floats(-2.5, 2.5),
    st.none(),
)
_COUNTS = st.one_of(st.none(), st.integers(-1, 22), st.just(2**32 - 1))
_FLAGS = st.sampled_from([None, True, False])

_BODIES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            [
                "temperature",
                "top_p",
                "min_p",
                "repetition_penalty",
                "length_penalty",
                "frequency_penalty",
                "presence_penalty",
                "assistant_confidence_threshold",
            ],
            _NUMBERS,
        ),
        **dict.fromkeys(
            [
                "max_tokens",
                "max_completion_tokens",
                "min_tokens",
                "n",
                "best_of",
                "top_k",
                "seed",
                "num_assistant_tokens",
                "max_ngram_size",
            ],
            _COUNTS,
        ),
        "ignore_eos": _FLAGS,
        "echo": _FLAGS,
        "logprobs": st.one_of(_FLAGS, st.integers(0, 1)),
        "stop": st.one_of(st.none(), st.lists(st.text(max_size=3), max_size=3)),
        "stop_token_ids": st.one_of(st.none(), st.lists(st.integers(0, 9), max_size=3)),
    },
)

_DEFAULTS = st.builds(
    ModelDefaults,
    max_new_tokens=st.sampled_from([None, 1, 5]),
    min_new_tokens=st.sampled_from([None, 0, 3]),
    ignore_eos=_FLAGS,
    temperature=st.sampled_from([None, 0.0, 0.7]),
    top_p=st.sampled_from([None, 0.5, 1.0]),
    top_k=st.sampled_from([None, 0, 5]),
    repetition_penalty=st.sampled_from([None, 1.0, 1.2]),
    presence_penalty=st.sampled_from([None, 0.0, 0.2]),
    eos_token_ids=st.sampled_from([(), (2,)]),
)


@given(
    _BODIES,
    _DEFAULTS,
    st.builds(
        RequestLimits,
        max_tokens_limit=st.sampled_from([None, 4, 50]),
        max_model_length=st.sampled_from([None, 64]),
    ),
    st.booleans(),
)
def test_the_engine_accepts_every_accepted_request(
    members: dict[str, Any], defaults: ModelDefaults, limits: RequestLimits, is_chat: bool
) -> None:
    from calculators.llm.engine.library_config import generation_config

    try:
        if is_chat:
            request: Any = parse_chat_request(chat_body(**members), limits, defaults)
        else:
            request = parse_completion_request(completion_body(**members), limits, defaults)
        settings = fit_to_model(request.settings, 10, limits.max_model_length, param="prompt")
    except RequestError as error:
        # Every refusal names a field; other tests check that it is the right one.
        event(f"refused: {error.param}")
        return
    event("accepted")
    config = generation_config(settings)
    if settings.stop_token_ids is None:
        config.set_eos_token_id(2)
    config.validate()
