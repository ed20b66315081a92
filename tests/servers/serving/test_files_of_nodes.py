"""Files that a graph's nodes open are found, and models compiled, while the graph is loaded."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import calculators
from calculators.vision.inference import compiled_model
from graph_runtime import REGISTRY, Registry, RunError
from servers.contract.failure import failure_of
from servers.serving.loaded_graph import GraphSettings
from tests.calculators.tensors.openvino.tiny_models import save
from tests.servers.serving.models.model_folders import add_number_model, numbers, request
from tests.servers.serving.reloading import Site
from tests.support.tflite_model import relu_model

OWN_FILE: Final = """
    input_stream: "x"
    output_stream: "y"
    node {
      calculator: "InferenceCalculator"
      input_stream: "TENSOR:x"
      output_stream: "TENSOR:y"
      options { [mediapipe.InferenceCalculatorOptions.ext] { model_path: "PATH" } }
    }
"""
LOADED: Final = """
    input_stream: "x"
    output_stream: "y"
    node {
      calculator: "ConstantSidePacketCalculator"
      output_side_packet: "PACKET:path"
      options {
        [mediapipe.ConstantSidePacketCalculatorOptions.ext] { packet { string_value: "PATH" } }
      }
    }
    node {
      calculator: "ResourceProviderCalculator"
      input_side_packet: "RESOURCE_ID:path"
      output_side_packet: "RESOURCE:content"
    }
    node {
      calculator: "TfLiteModelCalculator"
      input_side_packet: "MODEL_RESOURCE:content"
      output_side_packet: "MODEL:model"
    }
    node {
      calculator: "InferenceCalculator"
      input_side_packet: "MODEL:model"
      input_stream: "TENSOR:x"
      output_stream: "TENSOR:y"
    }
"""
BY_REQUEST: Final = (
    'input_side_packet: "path"\n' + LOADED[: LOADED.index("node")] + LOADED.split("}\n    ", 3)[-1]
)
RELU: Final = "mediapipe/modules/relu/relu.tflite"
FACES: Final = "mediapipe/modules/face_detection/face_detection_short_range.tflite"
ASKED: Final = request("g", x=[[-1, 2, -3, 4]])


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No model is compiled, and MediaPipe's own files are nowhere."""
    monkeypatch.setattr(compiled_model, "_compiled", type(compiled_model._compiled)())
    monkeypatch.delenv("GRAPHRT_MEDIAPIPE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)


def registry() -> Registry:
    made = Registry(REGISTRY)
    calculators.register_all(made)
    return made


def site(folder: Path, text: str, path: str = RELU, *models: str) -> Site:
    """Return a site with the graph ``g``, which names a file, and these models of the config."""
    config = {
        "mediapipe_config_list": [{"name": "g"}],
        "model_config_list": [{"config": {"name": each, "base_path": each}} for each in models],
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "g").mkdir()
    (folder / "g" / "graph.pbtxt").write_text(text.replace("PATH", path))
    return Site(folder, registry(), GraphSettings())


def write_model(folder: Path, content: bytes = b"") -> None:
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.tflite").write_bytes(content or relu_model(1, 4))


async def loaded(made: Site) -> str:
    """Load everything; return why the graph failed, "" if it did not."""
    await made.repository.load_all()
    return made.status("g")[2].removeprefix("OK")


@pytest.mark.parametrize("text", [OWN_FILE, LOADED], ids=["own file", "side packet"])
@pytest.mark.parametrize(("path", "name"), [(RELU, "relu"), (FACES, "face_detection")])
def test_a_model_of_the_config_stands_in_for_a_file_of_mediapipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, path: str, name: str
) -> None:
    write_model(tmp_path / name)

    async def scenario() -> None:
        made = site(tmp_path, text, path, name)
        assert await loaded(made) == ""
        # The first request compiles nothing.
        monkeypatch.setattr(compiled_model, "_read", None)
        assert await numbers(made.repository, ASKED) == [0, 2, 0, 4]
        await made.repository.close()

    asyncio.run(scenario())


def test_a_file_beside_the_graph_comes_first(tmp_path: Path) -> None:
    write_model(tmp_path / "relu")
    beside = tmp_path / "g" / RELU

    async def scenario() -> None:
        made = site(tmp_path, OWN_FILE, RELU, "relu")
        beside.parent.mkdir(parents=True)
        beside.write_bytes(b"this is no model")
        reason = await loaded(made)
        assert reason == (
            'node "InferenceCalculator": a model of 16 bytes is not in TFLite\'s format'
        )
        await made.repository.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("text", "node"),
    [(OWN_FILE, "InferenceCalculator"), (LOADED, "ResourceProviderCalculator")],
    ids=["own file", "side packet"],
)
def test_a_graph_without_its_model_fails_to_load_until_the_model_comes(
    tmp_path: Path, text: str, node: str
) -> None:
    async def scenario() -> None:
        made = site(tmp_path, text, RELU)
        assert await loaded(made) == (
            f'node "{node}": there is no file "{RELU}"; serve that file as a model with the name '
            f'"relu", or copy MediaPipe\'s models with graphrt pull mediapipe'
        )
        assert not await made.step()
        # In OpenVINO Model Server's layout, beside the graph.
        write_model(tmp_path / "g" / "relu")
        assert await made.step()
        assert await numbers(made.repository, ASKED) == [0, 2, 0, 4]
        await made.repository.close()

    asyncio.run(scenario())


def test_a_model_of_the_config_without_a_fitting_file_is_named(tmp_path: Path) -> None:
    save(add_number_model(1), tmp_path / "relu" / "1" / "model.xml")

    async def scenario() -> None:
        made = site(tmp_path, OWN_FILE, RELU, "relu")
        assert f'there is no file "{RELU}"; the model "relu" is model.xml; serve' in (
            await loaded(made)
        )
        await made.repository.close()

    asyncio.run(scenario())


def test_a_model_of_the_config_that_is_not_there_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        made = site(tmp_path, OWN_FILE, RELU, "relu")
        assert await loaded(made) == (
            'node "InferenceCalculator": the model "relu": there is no directory "relu", its '
            "base_path"
        )
        write_model(tmp_path / "relu")
        assert await made.step()
        assert await numbers(made.repository, ASKED) == [0, 2, 0, 4]
        await made.repository.close()

    asyncio.run(scenario())


def test_a_missing_file_that_a_request_names_is_named_to_the_client(tmp_path: Path) -> None:
    write_model(tmp_path / "relu")

    async def scenario() -> None:
        made = site(tmp_path, BY_REQUEST, RELU, "relu")
        assert await loaded(made) == ""
        parameters: Any = {"path": RELU}
        good = replace(ASKED, parameters=parameters)
        assert await numbers(made.repository, good) == [0, 2, 0, 4]
        with pytest.raises(RunError) as caught:
            await numbers(
                made.repository, replace(good, parameters={"path": RELU.replace("relu", "elu")})
            )
        assert failure_of(caught.value).text.startswith(
            'there is no file "mediapipe/modules/elu/elu.tflite"; serve that file as a model'
        )
        await made.repository.close()

    asyncio.run(scenario())
