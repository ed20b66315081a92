"""Parsing of ``/tokenize`` bodies, and its answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.tokenize_request import (
    MAX_CHARACTERS,
    MAX_PADDED,
    MAX_TEXTS,
    TokenizeRequest,
    parse_tokenize_request,
    tokenize_response,
)


def parsed(**members: Any) -> TokenizeRequest:
    return parse_tokenize_request({"model": "m", "text": "hi", **members})


def test_a_text_alone_has_the_defaults() -> None:
    assert parsed() == TokenizeRequest(model="m", texts=("hi",))
    assert parsed().add_special_tokens
    assert not parsed().is_batch


def test_every_option_can_be_set() -> None:
    assert parsed(
        text=["a", ""],
        add_special_tokens=False,
        max_length=4,
        pad_to_max_length=True,
        padding_side="left",
    ) == TokenizeRequest(
        model="m",
        texts=("a", ""),
        add_special_tokens=False,
        max_length=4,
        pad_to_max_length=True,
        padding_side="left",
    )
    assert parsed(text=["a", "b"]).is_batch


def test_padding_needs_a_length() -> None:
    assert not parsed(pad_to_max_length=True).pad_to_max_length


@pytest.mark.parametrize(
    ("members", "param", "text"),
    [
        ({"text": None}, "text", "text field is required"),
        ({"padding_side": "up"}, "padding_side", "should be string, either left or right"),
        ({"padding_side": 1}, "padding_side", "should be string, either left or right"),
        ({"text": 3}, "text", "a string or an array of strings"),
        ({"text": []}, "text", "text array should not be empty"),
        ({"text": [1, 2]}, "text[0]", "a string, got 1"),
        ({"text": ["a", []]}, "text[1]", "a string"),
        ({"max_length": 0}, "max_length", "minimum 1"),
        ({"max_length": -10}, "max_length", "minimum 1"),
        ({"max_length": "x"}, "max_length", "an integer"),
        ({"pad_to_max_length": "x"}, "pad_to_max_length", "true or false"),
        ({"add_special_tokens": 1}, "add_special_tokens", "true or false"),
        ({"model": None}, "model", "Missing"),
        (
            {"text": ["a", "b"], "max_length": MAX_PADDED, "pad_to_max_length": True},
            "max_length",
            "in all",
        ),
    ],
)
def test_errors_name_the_member(members: dict[str, Any], param: str, text: str) -> None:
    with pytest.raises(RequestError) as raised:
        parsed(**members)
    assert raised.value.param == param
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [([b"[1,2]"], [1, 2]), ([b"[]"], []), ([b"[1]", b"[]", b"[2]"], [[1], [], [2]])],
)
def test_one_text_has_one_list_and_several_have_one_each(
    tokens: list[bytes], shown: list[Any]
) -> None:
    assert json.loads(tokenize_response(tokens)) == {"tokens": shown}


def test_texts_are_limited_in_number_and_in_length_together() -> None:
    most = "x" * (MAX_CHARACTERS // 2)
    assert len(parsed(text=[most, most]).texts) == 2
    assert len(parsed(text=["x"] * MAX_TEXTS).texts) == MAX_TEXTS
    for text, told in (
        ([most, most, "x"], "1048577 characters are more than the maximum 1048576"),
        ("x" * (MAX_CHARACTERS + 1), "send them in several"),
        (["x"] * (MAX_TEXTS + 1), "1025 texts are more than the maximum 1024"),
    ):
        with pytest.raises(RequestError, match=told) as raised:
            parsed(text=text)
        assert raised.value.param == "text"
