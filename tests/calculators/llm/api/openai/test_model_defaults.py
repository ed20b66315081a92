"""Defaults from a model's generation_config.json, and errors in that file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calculators.llm.requests.model_defaults import ModelDefaults, read_generation_defaults
from graph_runtime import ResourceError


def write(directory: Path, config: Any, name: str = "generation_config.json") -> Path:
    text = config if isinstance(config, str) else json.dumps(config)
    (directory / name).write_text(text, encoding="utf-8")
    return directory


def test_a_model_without_the_file_has_no_defaults(tmp_path: Path) -> None:
    assert read_generation_defaults(tmp_path) == ModelDefaults()


def test_sampling_fields_become_defaults(tmp_path: Path) -> None:
    config = {
        "_from_model_config": True,
        "bos_token_id": 1,
        "do_sample": False,
        "eos_token_id": [2, 3],
        "max_length": 20,
        "max_new_tokens": 64,
        "min_new_tokens": 1,
        "num_beams": 4,
        "rng_seed": 7,
        "repetition_penalty": 1.05,
        "stop_strings": ["</s>", ""],
        "temperature": 0.6,
        "top_k": 20.0,
        "top_p": 1,
        "min_p": None,
        "transformers_version": "4.57",
    }
    assert read_generation_defaults(write(tmp_path, config)) == ModelDefaults(
        eos_token_ids=(2, 3),
        max_new_tokens=64,
        min_new_tokens=1,
        repetition_penalty=1.05,
        stop_strings=("</s>",),
        temperature=0.6,
        top_k=20,
        top_p=1.0,
    )


@pytest.mark.parametrize(("top_k", "expected"), [(-1, None), (0, 0), (5, 5)])
def test_a_negative_top_k_is_ignored_and_zero_is_no_limit(
    tmp_path: Path, top_k: int, expected: int | None
) -> None:
    assert read_generation_defaults(write(tmp_path, {"top_k": top_k})).top_k == expected


def test_end_tokens_come_from_the_model_config_where_there_are_none(tmp_path: Path) -> None:
    write(tmp_path, {"eos_token_id": 5}, "config.json")
    assert read_generation_defaults(tmp_path).eos_token_ids == (5,)
    write(tmp_path, {"eos_token_id": 7})
    assert read_generation_defaults(tmp_path).eos_token_ids == (7,)
    write(tmp_path, {"eos_token_id": -1})
    assert read_generation_defaults(tmp_path).eos_token_ids == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "warm"),
        ("temperature", -1),
        ("temperature", True),
        ("top_p", 0),
        ("top_p", 1.5),
        ("top_k", 1.5),
        ("min_p", 1),
        ("repetition_penalty", 0),
        ("frequency_penalty", 3),
        ("max_new_tokens", 0),
        ("ignore_eos", "yes"),
        ("stop_strings", [1]),
        ("eos_token_id", ["</s>"]),
        ("length_penalty", 10**400),
    ],
)
def test_a_wrong_value_is_named_with_its_file(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(ResourceError) as raised:
        read_generation_defaults(write(tmp_path, {name: value}))
    assert str(tmp_path / "generation_config.json") in str(raised.value)
    assert f'"{name}" must be' in str(raised.value)


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000])
def test_a_file_that_is_not_a_json_object_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(ResourceError, match=r"generation_config\.json: is not"):
        read_generation_defaults(write(tmp_path, text))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_bytes(b"\xff")
    with pytest.raises(ResourceError, match=r"generation_config\.json: is not UTF-8"):
        read_generation_defaults(tmp_path)
