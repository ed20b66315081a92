"""The length of the model bounds prompt and answer together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.model_files import read_model_length
from calculators.llm.requests.completions_request import parse_chat_request
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.sampling import fit_to_model
from graph_runtime import Code


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"max_position_embeddings": 5}, 5),
        ({"n_positions": 5, "sliding_window": 3}, 5),
        ({"max_position_embeddings": "x", "n_ctx": 7}, 7),
        ({"max_position_embeddings": -1}, None),
        ({"max_position_embeddings": True}, None),
        ({"text_config": {"max_position_embeddings": 5}}, 5),
        ({"max_position_embeddings": 6, "text_config": {"max_position_embeddings": 5}}, 6),
        ({"text_config": 5, "vision_config": {"max_position_embeddings": 5}}, None),
        ([], None),
    ],
)
def test_the_length_is_read_from_the_model_config(
    tmp_path: Path, config: Any, expected: int | None
) -> None:
    assert read_model_length(tmp_path) is None
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_model_length(tmp_path) == expected


def test_a_request_without_a_number_gets_the_room_that_is_left() -> None:
    assert fit_to_model(GenerationSettings(), 60, 64, param="prompt").max_new_tokens == 4
    assert fit_to_model(GenerationSettings(), 60, None, param="prompt").max_new_tokens is None


@pytest.mark.parametrize(
    ("settings", "length", "expected"),
    [
        (GenerationSettings(num_beams=20, num_return_sequences=1), 100_000, 204),
        (GenerationSettings(num_beams=20, num_return_sequences=20), None, 204),
        (GenerationSettings(num_return_sequences=16), 100_000, 1024),
        (GenerationSettings(num_return_sequences=2), 100_000, 8192),
        (GenerationSettings(num_return_sequences=16), 100, 40),
        (GenerationSettings(), 100_000, 99_940),
        (GenerationSettings(num_beams=20, max_new_tokens=5000), 100_000, 5000),
    ],
)
def test_several_answers_share_the_default_length(
    settings: GenerationSettings, length: int | None, expected: int
) -> None:
    for has_images in (False, True):
        made = fit_to_model(settings, 60, length, param="prompt", has_images=has_images)
        if expected != made.max_new_tokens:
            # Where it counts images, the engine itself keeps to the length.
            assert has_images
            assert made.max_length == length


def test_a_request_of_exactly_the_length_fits() -> None:
    settings = GenerationSettings(max_new_tokens=4)
    assert fit_to_model(settings, 60, 64, param="prompt") is settings
    echo_only = GenerationSettings(max_new_tokens=0, echo=True)
    assert fit_to_model(echo_only, 64, 64, param="prompt") is echo_only


@pytest.mark.parametrize(
    ("prompt_tokens", "max_new_tokens"), [(61, 4), (64, None), (65, None), (65, 0)]
)
def test_a_request_that_does_not_fit_is_refused(
    prompt_tokens: int, max_new_tokens: int | None
) -> None:
    with pytest.raises(RequestError, match="holds 64 tokens") as raised:
        fit_to_model(
            GenerationSettings(max_new_tokens=max_new_tokens), prompt_tokens, 64, param="messages"
        )
    assert raised.value.code is Code.OUT_OF_RANGE
    assert raised.value.param == "messages"


@pytest.mark.parametrize(
    ("asked", "least", "expected"), [(4096, 0, 4), (4096, 10, 4), (3, 0, 3), (None, 0, 4)]
)
def test_a_limit_that_the_client_has_not_chosen_is_cut_to_the_room(
    asked: int | None, least: int, expected: int
) -> None:
    settings = GenerationSettings(max_new_tokens=asked, min_new_tokens=least)
    made = fit_to_model(settings, 60, 64, param="prompt", may_be_less=True)
    assert made.max_new_tokens == expected
    assert made.min_new_tokens <= expected


def test_it_is_not_cut_to_nothing() -> None:
    with pytest.raises(RequestError, match="holds 64 tokens"):
        fit_to_model(
            GenerationSettings(max_new_tokens=9), 64, 64, param="messages", may_be_less=True
        )


@pytest.mark.parametrize(
    ("members", "limits_itself"),
    [({}, False), ({"max_tokens": 9}, True), ({"max_completion_tokens": 9}, True)],
)
def test_the_default_of_model_or_operator_is_not_the_clients_choice(
    members: dict[str, int], limits_itself: bool
) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **members}
    defaults = ModelDefaults(max_new_tokens=512)
    request = parse_chat_request(body, RequestLimits(), defaults)
    assert request.limits_itself is limits_itself
    assert request.settings.max_new_tokens == (9 if members else 512)
