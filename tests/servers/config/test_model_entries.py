"""Entries of plain models in config.json, in OpenVINO Model Server's terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calculators.tensors.openvino.model_settings import Dimension, ModelSettings
from servers.config import ConfigError, ModelEntry, VersionPolicy, model_of


def entry(**members: Any) -> ModelEntry:
    return model_of(Path("/site"), {"name": "m", **members})


def test_missing_keys_have_defaults() -> None:
    assert entry() == ModelEntry("m", Path("/site/m"))
    empty = entry(shape="", layout="", batch_size="", precision="", mean="", target_device="")
    assert empty == entry()
    assert entry().settings.target_device == "CPU"


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("auto", None),
        (
            "(1,3,224,224)",
            (Dimension(1, 1), Dimension(3, 3), Dimension(224, 224), Dimension(224, 224)),
        ),
        (" ( 1 , -1 ) ", (Dimension(1, 1), Dimension(0, None))),
        ("(2:8,)", (Dimension(2, 8),)),
        ([1, 5], (Dimension(1, 1), Dimension(5, 5))),
    ],
)
def test_shapes_are_read(text: Any, shape: Any) -> None:
    assert entry(shape={"x": text}).settings.shapes == {"x": shape}
    if isinstance(text, str):
        assert entry(shape=text).settings.shapes == {"": shape}


@pytest.mark.parametrize(
    ("value", "batch"),
    [
        (4, Dimension(4, 4)),
        ("4", Dimension(4, 4)),
        ("auto", Dimension(0, None)),
        (-1, Dimension(0, None)),
        ("2:8", Dimension(2, 8)),
        (0, None),
    ],
)
def test_batch_sizes_are_read(value: int | str, batch: Dimension | None) -> None:
    assert entry(batch_size=value).settings.batch_size == batch


def test_layouts_are_read() -> None:
    assert entry(layout="nhwc:nchw").settings.layouts == {"": ("NHWC", "NCHW")}
    assert entry(layout={"x": "CN", "y": "N??C:N..."}).settings.layouts == {
        "x": ("CN", "CN"),
        "y": ("N??C", "N..."),
    }


def test_preprocessing_is_read() -> None:
    settings = entry(
        precision="uint8:fp32", color_format="RGB:BGR", mean="[1, 2.5]", scale=255
    ).settings
    assert settings.precision == ("u8", "f32")
    # The colour format is written the other way round: the model's format comes first.
    assert settings.color_format == ("BGR", "RGB")
    assert (settings.mean, settings.scale) == ((1.0, 2.5), 255.0)


def test_settings_of_execution_are_read() -> None:
    said = entry(nireq=3, target_device="AUTO", plugin_config={"NUM_STREAMS": 2}, allow_cache=False)
    assert said.settings == ModelSettings(
        nireq=3, target_device="AUTO", plugin_config={"NUM_STREAMS": 2}
    )
    assert not said.is_cached


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        (None, [12]),
        ({"latest": {"num_versions": 2}}, [3, 12]),
        ({"latest": {"num_versions": 9}}, [1, 3, 12]),
        ({"all": {}}, [1, 3, 12]),
        # A missing version is reported when the model is loaded.
        ({"specific": {"versions": [7, 1, 1]}}, [1, 7]),
    ],
)
def test_version_policies_are_read(policy: Any, chosen: list[int]) -> None:
    members = {} if policy is None else {"model_version_policy": policy}
    assert entry(**members).policy.chosen([3, 12, 1]) == chosen


def test_the_default_policy_is_the_latest_version() -> None:
    assert entry().policy == VersionPolicy(latest=1)


def test_an_error_begins_with_the_key() -> None:
    with pytest.raises(ConfigError) as caught:
        entry(shape="x")
    assert caught.value.findings[0].message.startswith('shape: "x" is not understood')
