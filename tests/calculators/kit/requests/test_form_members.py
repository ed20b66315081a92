"""Forms that the declared members of a request describe."""

from __future__ import annotations

from typing import Any, Final

import pytest

from calculators.kit.requests.form_members import files_of, find_file, form_members, required_file
from calculators.kit.requests.http_payload import FormFile, MultipartForm, RequestError
from calculators.kit.requests.members import (
    BOOLEAN,
    STRING,
    Array,
    Enumeration,
    Number,
    Object,
    Value,
    honoured,
    ignored,
    read_members,
    refused,
    table,
)
from calculators.kit.requests.schema import number as number_schema
from calculators.kit.requests.schema import one_of, string, word

KNOWN: Final = table(
    honoured("model", STRING, is_required=True),
    honoured("temperature", Number(minimum=0, maximum=1)),
    honoured("stream", BOOLEAN),
    honoured("n", Value({"type": "integer"})),
    honoured("format", Enumeration(("json", "text"))),
    honoured("granularities", Array(string())),
    honoured("sizes", Array(number_schema())),
    honoured("alphas", Object()),
    honoured("either", Value(one_of(string(), number_schema()))),
    honoured("only_false", BOOLEAN, const=False),
    honoured("word", Value({"enum": ["json"]})),
    honoured("words", Array(word(("json", "text")))),
    ignored("changes nothing", "user"),
    refused("is not supported", "logprobs"),
)


def read(**fields: list[str]) -> dict[str, Any]:
    form = MultipartForm({name.replace("__", "[]"): texts for name, texts in fields.items()})
    return read_members(form_members(form, KNOWN), KNOWN)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"temperature": ["0.5"], "stream": ["True"]}, {"temperature": 0.5, "stream": True}),
        ({"temperature": [" 1 "], "n": ["-3"]}, {"temperature": 1.0, "n": -3}),
        ({"temperature": [""], "stream": [""]}, {}),
        ({"temperature": ["null"], "n": ["null"], "format": ["text"]}, {"format": "text"}),
        ({"format": ["text"], "model": ["1"]}, {"format": "text", "model": "1"}),
        ({"granularities__": ["word", "segment"]}, {"granularities": ["word", "segment"]}),
        ({"granularities": ["word"], "granularities__": ["1"]}, {"granularities": ["word", "1"]}),
        ({"sizes__": ["1", "2.5"]}, {"sizes": [1, 2.5]}),
        ({"alphas": ['{"a": 0.5}']}, {"alphas": {"a": 0.5}}),
        ({"either": ["1"]}, {"either": "1"}),
        ({"only_false": ["false"]}, {"only_false": False}),
        ({"format": ["null"]}, {}),
        ({"word": ["null"]}, {}),
        ({"words": ["null"]}, {}),
        ({"words": ["json", "text"]}, {"words": ["json", "text"]}),
        ({"format": [""]}, {}),
        ({"user": ["me"], "logprobs": ["false"]}, {}),
    ],
)
def test_texts_are_read_as_their_members_say(
    fields: dict[str, list[str]], expected: dict[str, Any]
) -> None:
    assert read(**fields) == expected


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": ["warm"]}, "temperature"),
        ({"temperature": ["1e999"]}, "temperature"),
        ({"temperature": ["0x1"]}, "temperature"),
        ({"temperature": ["1", "1"]}, "temperature"),
        ({"stream": ["1"]}, "stream"),
        ({"n": ["1.0"], "model": ["a", "b"]}, "model"),
        ({"alphas": ["{"]}, "alphas"),
        ({"alphas": ['{"a": 1, "a": 2}']}, "alphas"),
        ({"alphas": ['{"a": NaN}']}, "alphas"),
        ({"alphas": ['{"a": 1e999}']}, "alphas"),
        ({"alphas": ['{"\\ud800": 1}']}, "alphas"),
        ({"format": ["srt"]}, "format"),
        ({"logprobs": ["5"]}, "logprobs"),
        ({"temprature": ["5"]}, "temprature"),
    ],
)
def test_bad_texts_are_refused_with_their_name(fields: dict[str, list[str]], param: str) -> None:
    with pytest.raises(RequestError) as refusal:
        read(**fields)
    assert refusal.value.param == param


def test_a_file_is_found_by_its_name() -> None:
    one = FormFile("a.wav", "audio/wav", b"1")
    two = FormFile("b.wav", "audio/wav", b"2")
    form = MultipartForm({"text": ["x"]}, {"file": [one], "image[]": [one, two], "image": [two]})
    assert required_file(form, "file") is one
    assert find_file(form, "mask") is None
    assert files_of(form, "image") == [two, one, two]
    for name in ("text", "image", "mask"):
        with pytest.raises(RequestError) as refusal:
            required_file(form, name)
        assert refusal.value.param == name
