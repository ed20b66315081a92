"""Precisions of the key-value cache that are impossible are refused by the property's name."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from graph_runtime import ResourceError
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.graph_texts import resources_of, with_options
from tests.calculators.llm.test_node_options import read, refusal
from tests.support.conditions import soon


def plugin(**properties: Any) -> str:
    return f"plugin_config: '{json.dumps(properties)}'"


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"KV_CACHE_PRECISION": "u16"}, ["KV_CACHE_PRECISION: 'u16'", "u8", "f16"]),
        ({"KV_CACHE_PRECISION": 8}, ["KV_CACHE_PRECISION: 8", "u8"]),
        ({"KV_CACHE_PRECISION": True}, ["KV_CACHE_PRECISION: True"]),
        ({"KV_CACHE_PRECISION": ""}, ["KV_CACHE_PRECISION: ''"]),
        ({"KEY_CACHE_PRECISION": "x"}, ["KEY_CACHE_PRECISION: 'x'"]),
        ({"KEY_CACHE_PRECISION": "u8"}, ["KEY_CACHE_PRECISION", "VALUE_CACHE_PRECISION"]),
        (
            {"KEY_CACHE_PRECISION": "f16", "VALUE_CACHE_PRECISION": "u4"},
            ['VALUE_CACHE_PRECISION is "u4"', "KEY_CACHE_PRECISION"],
        ),
        ({"KEY_CACHE_GROUP_SIZE": -1}, ["KEY_CACHE_GROUP_SIZE: must be a whole number"]),
        ({"VALUE_CACHE_GROUP_SIZE": "x"}, ["VALUE_CACHE_GROUP_SIZE: "]),
        ({"VALUE_CACHE_GROUP_SIZE": 1.5}, ["VALUE_CACHE_GROUP_SIZE: "]),
        ({"DEVICE_PROPERTIES": {"CPU": {"KV_CACHE_PRECISION": 1}}}, ["KV_CACHE_PRECISION: 1"]),
    ],
)
def test_an_impossible_precision_is_refused(properties: dict[str, Any], words: list[str]) -> None:
    text = refusal(plugin(**properties))
    assert text.startswith("plugin_config: ")
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    "properties",
    [
        {"KV_CACHE_PRECISION": "u8"},
        {"KV_CACHE_PRECISION": "U8", "KEY_CACHE_GROUP_SIZE": "32"},
        {"KEY_CACHE_PRECISION": "u8", "VALUE_CACHE_PRECISION": "u4"},
        {"KV_CACHE_PRECISION": "u8", "KEY_CACHE_PRECISION": "u8", "VALUE_CACHE_GROUP_SIZE": 0},
        {"DEVICE_PROPERTIES": {"GPU": {"KV_CACHE_PRECISION": "i8"}}},
    ],
)
def test_a_possible_precision_is_accepted(properties: dict[str, Any]) -> None:
    assert read(plugin(**properties)).engine.plugin_config == properties


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            {"KV_CACHE_PRECISION": "bf16", "INFERENCE_PRECISION_HINT": "f32"},
            'plugin_config: KV_CACHE_PRECISION: "bf16": a cache that is not quantized',
        ),
        (
            {"KV_CACHE_PRECISION": "u8", "VALUE_CACHE_GROUP_SIZE": 64},
            "plugin_config: VALUE_CACHE_GROUP_SIZE: 64: must divide",
        ),
    ],
    ids=["precision", "group"],
)
def test_a_precision_that_only_the_device_refuses_is_named(
    properties: dict[str, Any], words: str
) -> None:
    text = with_options(f'models_path: "./" device: "CPU" {plugin(**properties)}')
    with pytest.raises(ResourceError) as caught:
        asyncio.run(soon(resources_of(text, DEMO)))
    assert words in str(caught.value), caught.value
