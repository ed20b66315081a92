"""The key ``scale`` of a config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servers.config import ConfigError, read_config
from servers.config.entries import Scale


def read(folder: Path, scale: Any) -> Scale:
    entry = {"name": "x", "base_path": ".", "scale": scale}
    config = folder / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": [entry]}))
    return read_config(config).graphs[0].scale


def test_one_replica_is_the_default(tmp_path: Path) -> None:
    scale = read(tmp_path, {})
    assert (scale.min_replicas, scale.max_replicas, scale.first_replicas) == (1, 1, 1)
    assert scale.demands == {"CPU": 1.0}


def test_the_least_is_the_most_unless_that_is_given(tmp_path: Path) -> None:
    assert read(tmp_path, {"min_replicas": 3}).max_replicas == 3
    assert read(tmp_path, {"max_replicas": 4}).min_replicas == 1


def test_loading_is_tried_even_if_none_is_needed(tmp_path: Path) -> None:
    assert read(tmp_path, {"min_replicas": 0, "max_replicas": 2}).first_replicas == 1


def test_demands_have_rays_names(tmp_path: Path) -> None:
    given = {"num_cpus": 0.5, "num_gpus": 1, "memory": 1 << 30, "resources": {"npu": 2}}
    demands = {"CPU": 0.5, "GPU": 1, "memory": 1 << 30, "npu": 2}
    assert read(tmp_path, given).demands == demands


def test_nodes_have_scales_of_their_own(tmp_path: Path) -> None:
    nodes = {"llm": {"place": "own", "max_replicas": 4, "num_gpus": 1}}
    (node,) = read(tmp_path, {"nodes": nodes}).nodes.values()
    assert (node.min_replicas, node.max_replicas, node.num_gpus) == (1, 4, 1)


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        ({"min_replicas": 3, "max_replicas": 2}, "3 is more than max_replicas, which is 2"),
        ({"initial_replicas": 5, "max_replicas": 2}, "5 is more than max_replicas, which is 2"),
        ({"min_replica": 3}, 'did you mean "min_replicas"?'),
        ({"max_replicas": 0}, "a whole number from 1 to 10000 is needed, not 0"),
        ({"resources": {"npu": "two"}}, "a number from 0"),
        ([], "an object is needed"),
        ({"nodes": {"llm": {"max_replicas": 2}}}, 'the key "place" is missing'),
        ({"nodes": {"llm": {"place": "here"}}}, '"own" is needed, not "here"'),
        ({"nodes": {"llm": {"place": "own", "min_replicas": 3, "max_replicas": 2}}}, "3 is more"),
        ({"nodes": {"llm": {"place": "own", "nodes": {}}}}, "unknown key"),
    ],
)
def test_errors_name_the_place(tmp_path: Path, scale: Any, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, scale)
    assert "mediapipe_config_list[0].scale" in str(error.value)
    assert text in str(error.value)


def test_numbers_of_a_plain_model_divide_its_inputs(tmp_path: Path) -> None:
    models = [
        {"config": {"name": "divided", "base_path": "a", "scale": 255}},
        {"config": {"name": "replicated", "base_path": "b", "scale": {"min_replicas": 2}}},
    ]
    (tmp_path / "config.json").write_text(json.dumps({"model_config_list": models}))
    divided, replicated = read_config(tmp_path / "config.json").models
    assert (divided.settings.scale, divided.scale) == (255.0, Scale())
    assert (replicated.settings.scale, replicated.scale.max_replicas) == (None, 2)


@pytest.mark.parametrize("scale", [{"min_replica": 2}, True])
def test_a_wrong_scale_of_a_plain_model_is_found(tmp_path: Path, scale: Any) -> None:
    models = [{"config": {"name": "m", "base_path": "a", "scale": scale}}]
    (tmp_path / "config.json").write_text(json.dumps({"model_config_list": models}))
    with pytest.raises(ConfigError, match=r"model_config_list\[0\].config.scale"):
        read_config(tmp_path / "config.json")
