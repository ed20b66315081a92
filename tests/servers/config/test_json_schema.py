"""The JSON Schema of config.json accepts exactly the values that the server accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servers.cli.config_schema import config_schema, key_texts
from servers.cli.reference import reference
from servers.config import read_config
from servers.config.checks import (
    DifferentWords,
    Either,
    IntegerCheck,
    ListOf,
    MapOf,
    ObjectOf,
    OfType,
    OneOf,
    Reads,
    SchemaCheck,
    WordCheck,
)
from servers.config.server_config import CONFIG

SCHEMA: Final = config_schema()
VALIDATOR: Final = jsonschema.Draft202012Validator(SCHEMA)

#: Values of every kind. Numbers without a fraction are integers: 1.0 differs, as `checks` says.
ODD: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 200_000),
    st.floats(-1, 1e9, allow_nan=False).filter(lambda number: not number.is_integer()),
    st.sampled_from(["", "name", "at_start", "(1,3,4)"]),
    st.just([]),
    st.just({}),
    st.just({"name": "x"}),
)


def values_for(check: SchemaCheck) -> st.SearchStrategy[Any]:
    """Values that often pass a check, and sometimes do not."""
    match check:
        case ObjectOf(fields, required, False):
            made = {name: nearly(each) for name, each in fields.items()}
            return st.one_of(
                st.fixed_dictionaries(
                    {name: made[name] for name in required},
                    optional={name: each for name, each in made.items() if name not in required},
                ),
                st.dictionaries(st.sampled_from([*fields, "unknown"]), ODD, max_size=3),
            )
        case OneOf(fields):
            made = {name: nearly(each) for name, each in fields.items()}
            return st.fixed_dictionaries({}, optional=made)
        case MapOf(item, required):
            named = st.fixed_dictionaries({name: nearly(item) for name in required})
            return st.one_of(named, st.dictionaries(st.sampled_from("ab"), nearly(item)))
        case ListOf(item, _):
            return st.lists(nearly(item), max_size=3)
        case Either(first, _, second):
            return st.one_of(nearly(first), nearly(second))
        case WordCheck(words):
            return st.sampled_from(words)
        case DifferentWords(words, _):
            return st.lists(st.sampled_from([*words, "ovms_unknown"]), max_size=3)
        case IntegerCheck(low, high):
            return st.sampled_from([low - 1, low, low if high is None else high, (high or low) + 1])
        case Reads(_, _, types):
            return st.just("") if str in types else st.nothing()
        case OfType(_, types):
            return st.sampled_from(
                [value for value in ("text", True, 3, 0.5) if isinstance(value, types)]
            )
        case _:
            return ODD


def nearly(check: SchemaCheck) -> st.SearchStrategy[Any]:
    if isinstance(check, Reads):
        # Strings of a form of their own are only read, not described.
        wrong = ODD.filter(lambda value: not isinstance(value, check.types) or value == "")
        return st.one_of(values_for(check), wrong)
    return st.one_of(values_for(check), values_for(check), ODD)


def refusals(value: Any) -> list[str]:
    found: list[str] = []
    CONFIG.check(value, "", lambda path, message, *_: found.append(f"{path}: {message}"))
    return found


@settings(max_examples=300, suppress_health_check=list(HealthCheck), deadline=None)
@given(nearly(CONFIG))
def test_the_schema_and_the_server_accept_the_same_values(value: Any) -> None:
    assert VALIDATOR.is_valid(value) is (refusals(value) == []), refusals(value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("shape", "(1,3,224,224)"),
        ("shape", {"x": "auto", "y": [1, 2]}),
        ("layout", {"x": "NHWC:NCHW"}),
        ("batch_size", "2:8"),
        ("mean", [1, 2.5]),
        ("precision", "uint8:fp32"),
        ("model_version_policy", {"specific": {"versions": [1, 2]}}),
        ("plugin_config", {"A": True, "B": 1, "C": "x"}),
    ],
)
def test_values_with_forms_of_their_own_are_valid_too(key: str, value: Any) -> None:
    config = {"model_config_list": [{"config": {"name": "m", key: value}}]}
    assert refusals(config) == []
    VALIDATOR.validate(config)


def test_the_schema_is_one_and_every_key_is_described_as_in_the_reference() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    page = reference()
    lists = SCHEMA["properties"]
    model = lists["model_config_list"]["items"]["properties"]["config"]["properties"]
    graph = lists["mediapipe_config_list"]["items"]["properties"]
    kinds = (lists, model, graph, model)
    for properties, table in zip(kinds, key_texts().values(), strict=True):
        for name, text in table.items():
            assert properties[name]["description"] == text
            assert f"| `{name}` | {text.replace('|', chr(92) + '|')} |" in page


def test_a_config_may_name_its_schema(tmp_path: Path) -> None:
    config = {"$schema": "./schema.json", "mediapipe_config_list": [{"name": "echo"}]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (graph,) = read_config(tmp_path / "config.json").graphs
    assert graph.name == "echo"
