"""Settings of the engine for the sampling fields of a request."""

from __future__ import annotations

from typing import Any, cast

import pytest

from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from tests.calculators.llm.api.openai.bodies import chat, completion, refusal, settings


def test_the_default_is_sampling_from_forty_tokens() -> None:
    made = settings()
    assert made.do_sample
    assert made.temperature == 1.0
    assert made.top_k == 40
    assert made.num_beams == made.num_return_sequences == 1


@pytest.mark.parametrize("temperature", [0, 0.0, 1e-46])
def test_temperature_zero_takes_the_best_token(temperature: float) -> None:
    made = settings(temperature=temperature, top_p=0.5, top_k=3, min_p=0.1, seed=1)
    assert not made.do_sample
    assert made.temperature is made.top_p is made.top_k is made.min_p is made.rng_seed is None


def test_the_request_overrides_the_model_and_the_model_the_built_in_default() -> None:
    defaults = ModelDefaults(temperature=0.6, top_p=0.9, top_k=20, repetition_penalty=1.1)
    made = settings(defaults=defaults, top_p=0.5, top_k=None)
    assert made.temperature == 0.6
    assert made.top_p == 0.5
    assert made.top_k == 20
    assert made.repetition_penalty == 1.1
    assert made.min_p is None


def test_a_model_whose_temperature_is_zero_does_not_sample() -> None:
    assert not settings(defaults=ModelDefaults(temperature=0.0)).do_sample
    assert settings(defaults=ModelDefaults(temperature=0.0), temperature=0.7).do_sample


@pytest.mark.parametrize(
    ("model", "request_value", "expected"),
    [(None, None, 40), (None, -1, None), (0, None, None), (7, None, 7), (7, -1, None), (7, 3, 3)],
)
def test_top_k_is_limited_unless_request_or_model_say_no_limit(
    model: int | None, request_value: int | None, expected: int | None
) -> None:
    assert settings(defaults=ModelDefaults(top_k=model), top_k=request_value).top_k == expected


def test_the_seed_is_the_requests_or_random() -> None:
    assert settings(seed=42).rng_seed == 42
    assert settings(seed=0).rng_seed == 0
    seeds = {settings().rng_seed for _ in range(20)}
    assert len(seeds) == 20
    assert all(seed and seed < 2**32 for seed in seeds)


class TestLength:
    def test_the_default_length_is_the_limit_and_then_the_models(self) -> None:
        defaults = ModelDefaults(max_new_tokens=7)
        assert settings().max_new_tokens is None
        assert settings(defaults=defaults).max_new_tokens == 7
        limits = RequestLimits(max_tokens_limit=10)
        assert settings(limits, defaults).max_new_tokens == 10
        assert settings(limits, defaults, max_tokens=None).max_new_tokens == 10

    def test_the_limit_is_inclusive(self) -> None:
        limits = RequestLimits(max_tokens_limit=10)
        assert settings(limits, max_tokens=10).max_new_tokens == 10
        assert settings(limits, max_completion_tokens=10).max_new_tokens == 10
        assert refusal(limits, max_tokens=11).param == "max_tokens"
        assert refusal(limits, max_completion_tokens=11).param == "max_completion_tokens"

    def test_max_completion_tokens_overrides_max_tokens(self) -> None:
        assert settings(max_tokens=5, max_completion_tokens=7).max_new_tokens == 7

    def test_several_answers_share_a_default_length_but_not_a_requested_one(self) -> None:
        limits = RequestLimits(max_tokens_limit=10_000)
        assert settings(limits=limits).max_new_tokens == 10_000
        assert settings(limits=limits, best_of=20).max_new_tokens == 204
        assert settings(limits=limits, n=16).max_new_tokens == 1024
        assert settings(limits=limits, best_of=20, max_tokens=9000).max_new_tokens == 9000
        defaults = ModelDefaults(max_new_tokens=300)
        assert settings(defaults=defaults, best_of=2).max_new_tokens == 300
        assert settings(defaults=defaults, best_of=20).max_new_tokens == 204

    def test_zero_tokens_need_echo(self) -> None:
        assert refusal(max_tokens=0).param == "max_tokens"
        assert refusal(max_completion_tokens=0).param == "max_completion_tokens"
        made = completion(max_tokens=0, echo=True, defaults=ModelDefaults(min_new_tokens=3))
        assert made.echo
        assert made.settings.max_new_tokens == made.settings.min_new_tokens == 0

    def test_min_tokens_stay_below_the_maximum(self) -> None:
        assert settings(min_tokens=3, max_tokens=3).min_new_tokens == 3
        assert refusal(min_tokens=4, max_tokens=3).param == "min_tokens"
        # The model's own minimum yields to a request that wants less.
        defaults = ModelDefaults(min_new_tokens=5)
        assert settings(defaults=defaults, max_tokens=2).min_new_tokens == 2

    def test_ignore_eos_needs_a_length(self) -> None:
        assert refusal(ignore_eos=True).param == "ignore_eos"
        assert settings(ignore_eos=True, max_tokens=3).ignore_eos
        assert settings(RequestLimits(max_model_length=64), ignore_eos=True).ignore_eos
        assert not settings(defaults=ModelDefaults(ignore_eos=True)).ignore_eos
        assert settings(defaults=ModelDefaults(ignore_eos=True), max_tokens=3).ignore_eos


class TestSeveralAnswers:
    def test_n_without_best_of_is_parallel_sampling(self) -> None:
        request = chat(n=3)
        assert request.n == request.settings.num_return_sequences == 3
        assert request.settings.do_sample
        assert request.settings.num_beams == 1

    def test_greedy_answers_are_generated_once(self) -> None:
        request = chat(n=3, temperature=0)
        assert request.n == 3
        assert request.settings.num_return_sequences == 1

    def test_best_of_is_beam_search(self) -> None:
        request = chat(n=2, best_of=4)
        assert request.settings.num_beams == 4
        assert request.settings.num_return_sequences == request.n == 2
        assert not request.settings.do_sample

    def test_limits_are_inclusive(self) -> None:
        assert chat(n=16).n == 16
        assert refusal(n=17).param == "n"
        assert chat(best_of=20, n=20).n == 20
        assert refusal(best_of=21).param == "best_of"
        assert chat(RequestLimits(best_of_limit=2), best_of=2).settings.num_beams == 2

    def test_more_answers_than_beams_are_refused(self) -> None:
        assert refusal(n=3, best_of=2).param == "n"
        assert refusal(n=2, best_of=1).param == "n"

    def test_beams_cannot_be_streamed_but_samples_can(self) -> None:
        assert refusal(best_of=2, stream=True).param == "best_of"
        assert chat(best_of=1, stream=True).stream
        assert chat(n=2, stream=True).n == 2

    @pytest.mark.parametrize(
        ("name", "value"),
        [("repetition_penalty", 1.2), ("frequency_penalty", 0.5), ("presence_penalty", -1)],
    )
    def test_penalties_and_beams_exclude_each_other(self, name: str, value: Any) -> None:
        assert refusal(best_of=2, **{name: value}).param == name
        error = refusal(defaults=ModelDefaults(**{name: value}), best_of=2)
        assert error.param == name
        assert "generation_config.json" in str(error)
        neutral: Any = 1 if name == "repetition_penalty" else 0
        defaults = ModelDefaults(**{name: value})
        assert chat(defaults=defaults, best_of=2, **{name: neutral}).settings.num_beams == 2


class TestStopping:
    def test_stop_strings_are_unique_and_in_order(self) -> None:
        assert settings(stop="a").stop_strings == ("a",)
        assert settings(stop=["b", "a", "b"]).stop_strings == ("b", "a")
        assert settings(stop=[]).stop_strings == ()

    def test_the_requests_stop_strings_replace_the_models(self) -> None:
        defaults = ModelDefaults(stop_strings=("x",))
        assert settings(defaults=defaults).stop_strings == ("x",)
        assert settings(defaults=defaults, stop=[]).stop_strings == ("x",)
        assert settings(defaults=defaults, stop="y").stop_strings == ("y",)

    @pytest.mark.parametrize(
        ("stop", "param"),
        [
            ({}, "stop"),
            (1, "stop"),
            (["a", 1], "stop[1]"),
            (["a", None], "stop[1]"),
            ("", "stop"),
            ([str(i) for i in range(17)], "stop"),
            (["a", "b" * 257], "stop[1]"),
        ],
    )
    def test_invalid_stop_strings_are_named(self, stop: Any, param: str) -> None:
        assert refusal(stop=stop).param == param

    def test_the_limits_are_inclusive(self) -> None:
        assert len(settings(stop=[str(i) for i in range(16)]).stop_strings) == 16
        assert settings(stop="b" * 256).stop_strings == ("b" * 256,)

    def test_stop_token_ids_add_to_the_models_own(self) -> None:
        defaults = ModelDefaults(eos_token_ids=(2, 3))
        assert settings(defaults=defaults).stop_token_ids is None
        assert settings(defaults=defaults, stop_token_ids=[]).stop_token_ids is None
        assert settings(defaults=defaults, stop_token_ids=[5, 3]).stop_token_ids == (2, 3, 5)

    @pytest.mark.parametrize("token", [-1, 1.5, "1", True, None, 2**31])
    def test_invalid_token_ids_are_named(self, token: Any) -> None:
        assert refusal(stop_token_ids=[1, token]).param == "stop_token_ids[1]"

    def test_the_number_of_token_ids_is_limited(self) -> None:
        assert refusal(stop_token_ids=list(range(129))).param == "stop_token_ids"

    @pytest.mark.parametrize("stream", [False, True])
    def test_the_stop_string_is_in_the_text_only_on_request(self, stream: bool) -> None:
        assert not chat(stream=stream).include_stop_str_in_output
        assert chat(stream=stream, include_stop_str_in_output=True).include_stop_str_in_output
        defaults = ModelDefaults(include_stop_str_in_output=True)
        assert chat(defaults=defaults, stream=stream).include_stop_str_in_output
        request = chat(defaults=defaults, stream=stream, include_stop_str_in_output=False)
        assert not request.include_stop_str_in_output


class TestLogprobs:
    def test_a_chat_has_log_probabilities_of_the_chosen_tokens(self) -> None:
        assert not settings().logprobs
        request = chat(logprobs=True, top_logprobs=0, stream=True)
        assert request.logprobs
        assert request.settings.logprobs

    @pytest.mark.parametrize(
        "members", [{"top_logprobs": 1, "logprobs": True}, {"top_logprobs": 2}]
    )
    def test_log_probabilities_of_other_tokens_are_refused(self, members: dict[str, Any]) -> None:
        assert refusal(**members).param == "top_logprobs"

    def test_completions_accept_zero_and_one(self) -> None:
        assert completion().logprobs is None
        assert not completion().settings.logprobs
        for value in (0, 1):
            request = completion(logprobs=value)
            assert request.logprobs == value
            assert request.settings.logprobs


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 2.01),
        ("temperature", -0.1),
        ("temperature", True),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_p", 1.01),
        ("top_p", 0),
        ("top_p", 1e-60),
        ("min_p", 1.0),
        ("min_p", -0.1),
        ("top_k", -2),
        ("top_k", 1.5),
        ("top_k", 2**31),
        ("seed", -(2**63) - 1),
        ("seed", 2**64),
        ("seed", 10**400),
        ("seed", 1.5),
        ("n", 0),
        ("n", 1.5),
        ("n", True),
        ("best_of", 0),
        ("max_tokens", -1),
        ("max_tokens", 2**32),
        ("max_tokens", True),
        ("frequency_penalty", 2.1),
        ("presence_penalty", -2.1),
        ("repetition_penalty", 0),
        ("repetition_penalty", 1e300),
        ("repetition_penalty", float("nan")),
        ("length_penalty", 10**400),
        ("length_penalty", "x"),
        ("ignore_eos", 1),
        ("include_stop_str_in_output", "yes"),
        ("skip_special_tokens", 0),
        ("num_assistant_tokens", -1),
        ("assistant_confidence_threshold", "x"),
        ("max_ngram_size", -1),
        ("min_tokens", -1),
    ],
)
def test_a_value_of_the_wrong_range_or_type_is_refused_by_name(name: str, value: Any) -> None:
    assert refusal(**{name: value}).param == name


@pytest.mark.parametrize(
    ("name", "value", "end"), [("min_p", 0.99999999999, 1), ("repetition_penalty", 1e-60, 0)]
)
def test_a_number_that_a_float_rounds_to_an_excluded_end_stays_in_the_range(
    name: str, value: float, end: int
) -> None:
    read = getattr(settings(temperature=1, **cast(Any, {name: value})), name)
    assert read != end
    assert abs(read - end) < 1e-6


def test_token_ids_may_be_written_with_a_point() -> None:
    assert (
        settings(stop_token_ids=[7.0]).stop_token_ids == settings(stop_token_ids=[7]).stop_token_ids
    )


def test_fields_for_draft_models_are_refused_where_there_is_none() -> None:
    assert refusal(num_assistant_tokens=3).param == "num_assistant_tokens"
    assert refusal(max_ngram_size=2).param == "max_ngram_size"
    error = refusal(assistant_confidence_threshold=0.5)
    assert error.param == "assistant_confidence_threshold"
    assert "without a draft model" in str(error)
    assert settings(seed=1, num_assistant_tokens=0, max_ngram_size=0) == settings(seed=1)
    error = refusal(num_assistant_tokens=3, assistant_confidence_threshold=0.4)
    assert error.param == "num_assistant_tokens"


def test_null_means_absent() -> None:
    names = [
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "length_penalty",
        "temperature",
        "top_p",
        "min_p",
        "top_k",
        "stop",
        "best_of",
        "n",
        "logprobs",
        "include_stop_str_in_output",
        "num_assistant_tokens",
        "assistant_confidence_threshold",
        "max_ngram_size",
        "skip_special_tokens",
        "modalities",
        "audio",
        "chunk_frames",
        "tools",
        "tool_choice",
        "response_format",
        "chat_template_kwargs",
        "ignore_eos",
        "top_logprobs",
        "logit_bias",
        "user",
        "min_tokens",
        "stop_token_ids",
        "reasoning_effort",
        "enable_thinking",
        "parallel_tool_calls",
        "suffix",
    ]
    nulls: dict[str, Any] = dict.fromkeys(names)
    assert chat(seed=1, **nulls) == chat(seed=1)
    assert completion(seed=1, **nulls, echo=None) == completion(seed=1)


def test_an_error_says_what_would_be_right() -> None:
    assert str(refusal(temperature=3)) == (
        'Invalid value for "temperature": 3 is above the maximum 2'
    )
    # Longer than Python converts to text.
    assert str(refusal(seed=10**5000)) == (
        'Invalid value for "seed": an integer of over 128 bits is above the maximum '
        "18446744073709551615"
    )
    assert str(refusal(temperature="x" * 100)) == (
        f'Invalid value for "temperature": expected a number, got the string "{"x" * 40}"...'
    )
