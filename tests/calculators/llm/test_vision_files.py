"""Files of a vision model: a missing one is named before the library fails on it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from calculators.images.media.image import Image
from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.messages import Add
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.model_files import find_model, sees_images
from calculators.llm.servable import _check_pixels
from graph_runtime import ResourceError
from tests.calculators.llm.demo_model import DEMO

SEEING = DEMO.parent / "shapes_vlm"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in SEEING.iterdir():
        if file.is_file():
            os.symlink(file, folder / file.name)
    return folder


def test_the_example_is_complete(model: Path) -> None:
    assert find_model("./", model) == model
    assert sees_images(model)
    assert not sees_images(DEMO)


@pytest.mark.parametrize(
    ("name", "purpose"),
    [
        ("openvino_language_model.bin", "the language model's weights"),
        ("openvino_text_embeddings_model.bin", "the embedding of text's weights"),
        ("openvino_vision_embeddings_model.bin", "the embedding of images' weights"),
        ("openvino_vision_embeddings_merger_model.xml", "a part of qwen2_vl models"),
        ("openvino_vision_embeddings_merger_model.bin", "a part of qwen2_vl models"),
        ("openvino_detokenizer.xml", "the detokenizer"),
    ],
)
def test_each_missing_file_is_named(model: Path, name: str, purpose: str) -> None:
    (model / name).unlink()
    with pytest.raises(ResourceError) as caught:
        find_model("./", model)
    assert f'models_path: "./" has no {name} ({purpose})' in str(caught.value)


@pytest.mark.parametrize("config", ["[]", "{", json.dumps({"model_type": [1]})])
def test_a_strange_config_is_an_error_and_not_a_crash(model: Path, config: str) -> None:
    (model / "config.json").unlink()
    (model / "config.json").write_text(config)
    if config == "{":
        with pytest.raises(ResourceError, match=r"config\.json is not JSON"):
            find_model("./", model)
    else:
        assert find_model("./", model) == model


def test_answers_times_pixels_have_a_limit() -> None:
    image = Image(4000, 4000, bytes(4000 * 4000 * 3))
    part = Add(0, b"", GenerationSettings(), images=(image,))
    _check_pixels([part] * 3)
    with pytest.raises(RequestError, match="4 answers are too many for these images") as caught:
        _check_pixels([part] * 4)
    assert caught.value.param == "n"
