"""Settings of assisted decoding: defaults, limits, and members that exclude each other."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.settings import DecodingMode, GenerationSettings
from calculators.llm.requests.checked_request import read_body
from calculators.llm.requests.completions_request import CHAT_MEMBERS
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.sampling import read_sampling

ASSISTED: tuple[DecodingMode, ...] = ("speculative", "eagle3", "prompt_lookup")


def settings(
    mode: DecodingMode, defaults: ModelDefaults | None = None, **body: Any
) -> GenerationSettings:
    limits = RequestLimits(decoding_mode=mode, has_beams=mode == "standard")
    return read_sampling(read_body(body, CHAT_MEMBERS), defaults or ModelDefaults(), limits)


def refusal(mode: DecodingMode, **body: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        settings(mode, **body)
    return caught.value


def proposed(made: GenerationSettings) -> tuple[int, float, int]:
    return made.num_assistant_tokens, made.assistant_confidence_threshold, made.max_ngram_size


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("standard", (0, 0, 0)),
        ("speculative", (5, 0, 0)),
        ("eagle3", (5, 0, 0)),
        ("prompt_lookup", (5, 0, 3)),
    ],
)
def test_the_defaults_are_openvino_model_servers(
    mode: DecodingMode, expected: tuple[int, float, int]
) -> None:
    assert proposed(settings(mode)) == expected
    assert proposed(settings(mode, num_assistant_tokens=0, max_ngram_size=0)) == expected


@pytest.mark.parametrize(
    ("mode", "body", "expected"),
    [
        ("speculative", {"num_assistant_tokens": 7, "max_ngram_size": 0}, (7, 0, 0)),
        (
            "speculative",
            {"assistant_confidence_threshold": 0.4, "temperature": 0},
            (0, 0.4, 0),
        ),
        ("prompt_lookup", {"num_assistant_tokens": 7, "max_ngram_size": 2}, (7, 0, 2)),
        ("prompt_lookup", {"num_assistant_tokens": 32, "max_ngram_size": 32}, (32, 0, 32)),
    ],
)
def test_a_request_sets_the_number_of_candidates(
    mode: DecodingMode, body: dict[str, Any], expected: tuple[int, float, int]
) -> None:
    assert proposed(settings(mode, **body)) == expected


@pytest.mark.parametrize(
    ("mode", "body", "param"),
    [
        ("standard", {"num_assistant_tokens": 7}, "num_assistant_tokens"),
        ("standard", {"max_ngram_size": 2}, "max_ngram_size"),
        ("standard", {"assistant_confidence_threshold": 0.4}, "assistant_confidence_threshold"),
        ("speculative", {"max_ngram_size": 2}, "max_ngram_size"),
        ("eagle3", {"max_ngram_size": 2}, "max_ngram_size"),
        ("speculative", {"num_assistant_tokens": 33}, "num_assistant_tokens"),
        ("prompt_lookup", {"num_assistant_tokens": 2**31}, "num_assistant_tokens"),
        ("prompt_lookup", {"max_ngram_size": 33}, "max_ngram_size"),
        (
            "prompt_lookup",
            {"assistant_confidence_threshold": 0.4, "temperature": 0},
            "assistant_confidence_threshold",
        ),
        (
            "speculative",
            {"assistant_confidence_threshold": 0.4, "temperature": 0.5},
            "assistant_confidence_threshold",
        ),
        (
            "speculative",
            {"assistant_confidence_threshold": 0.4, "num_assistant_tokens": 2},
            "num_assistant_tokens",
        ),
        *((mode, {"min_tokens": 3}, "min_tokens") for mode in ASSISTED),
        *((mode, {"best_of": 3}, "best_of") for mode in ASSISTED),
    ],
)
def test_invalid_members_are_refused_by_name(
    mode: DecodingMode, body: dict[str, Any], param: str
) -> None:
    assert refusal(mode, **body).param == param


@pytest.mark.parametrize("mode", ASSISTED)
def test_sampling_works_with_assisted_decoding(mode: DecodingMode) -> None:
    made = settings(mode, temperature=0.5, n=3, seed=1)
    assert made.do_sample
    assert made.num_return_sequences == 3


@pytest.mark.parametrize("mode", ASSISTED)
def test_the_models_own_minimum_is_ignored(mode: DecodingMode) -> None:
    assert settings(mode, ModelDefaults(min_new_tokens=9)).min_new_tokens == 0
    assert settings("standard", ModelDefaults(min_new_tokens=9)).min_new_tokens == 9
