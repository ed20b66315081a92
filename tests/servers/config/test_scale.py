"""The key ``scale`` of a config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servers.config import ConfigError, read_config
from servers.config.scale import Scale


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


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        ({"min_replicas": 3, "max_replicas": 2}, "3 is more than max_replicas, which is 2"),
        ({"initial_replicas": 5, "max_replicas": 2}, "5 is more than max_replicas, which is 2"),
        ({"min_replica": 3}, 'did you mean "min_replicas"?'),
        ({"max_replicas": 0}, "a whole number from 1 to 10000 is needed, not 0"),
        ({"resources": {"npu": "two"}}, "a number from 0"),
        ([], "an object is needed"),
    ],
)
def test_errors_name_the_place(tmp_path: Path, scale: Any, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, scale)
    assert "mediapipe_config_list[0].scale" in str(error.value)
    assert text in str(error.value)
