"""Models that sessions find, and the errors if there is none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op

from calculators.tensors.openvino.directory_models import DirectoryModels
from graph_runtime import Code, RunError, ValidationError, parse_graph_text, validate_graph
from tests.calculators.tensors.openvino.graphs import registry, run, session_and_inference
from tests.calculators.tensors.openvino.tiny_models import named, parameter, save


def times(factor: float) -> Any:
    x = parameter("X", [1])
    return openvino.Model([op.result(named(op.multiply(x, np.float32(factor)), "Y"))], [x], "m")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Make the model ``times`` in versions 2 and 10, and ``three`` as a file."""
    save(times(2), tmp_path / "times" / "2" / "model.xml")
    save(times(10), tmp_path / "times" / "10" / "other_name.xml")
    save(times(3), tmp_path / "three.xml")
    (tmp_path / "times" / "notes").mkdir()
    (tmp_path / "empty" / "1").mkdir(parents=True)
    (tmp_path / "broken" / "1").mkdir(parents=True)
    (tmp_path / "broken" / "1" / "model.xml").write_text("<net>")
    return tmp_path


def graph(name: str, version: str | None = None) -> str:
    text = session_and_inference(name, ["X:in"], ["Y:out"])
    if version is None:
        return text
    return text.replace(
        f'servable_name: "{name}"', f'servable_name: "{name}" servable_version: "{version}"'
    )


def answer(text: str, models: DirectoryModels | None) -> float:
    [value] = run(text, [("in", np.ones(1, np.float32), 0)], models)["out"]
    return float(value[0])


@pytest.mark.parametrize(
    ("version", "factor"), [(None, 10), ("", 10), ("0", 10), ("10", 10), ("2", 2), (" 2 ", 2)]
)
def test_a_version_is_chosen_and_the_highest_is_the_default(
    directory: Path, version: str | None, factor: float
) -> None:
    assert answer(graph("times", version), DirectoryModels(directory)) == factor


@pytest.mark.parametrize("version", [None, "1"])
def test_a_file_beside_the_graph_is_version_1(directory: Path, version: str | None) -> None:
    assert answer(graph("three", version), DirectoryModels(directory)) == 3


def message(*fields: tuple[int, bytes | int]) -> bytes:
    """Return a protobuf message of short fields: length-delimited ones, or small numbers."""
    return b"".join(
        bytes([number << 3, value])
        if isinstance(value, int)
        else bytes([number << 3 | 2, len(value)]) + value
        for number, value in fields
    )


def onnx_double() -> bytes:
    """Return an ONNX model: Y = X + X, one float each."""

    def vector(name: bytes) -> bytes:
        tensor = message((1, 1), (2, message((1, message((1, 1))))))
        return message((1, name), (2, message((1, tensor))))

    node = message((1, b"X"), (1, b"X"), (2, b"Y"), (4, b"Add"))
    graph = message((1, node), (2, b"double"), (11, vector(b"X")), (12, vector(b"Y")))
    return message((1, 8), (7, graph), (8, message((2, 13))))


def test_an_onnx_file_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "double" / "1").mkdir(parents=True)
    (tmp_path / "double" / "1" / "model.onnx").write_bytes(onnx_double())
    assert answer(graph("double"), DirectoryModels(tmp_path)) == 2


def test_without_a_provider_models_are_read_from_the_working_directory(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    assert answer(graph("three"), None) == 3


def test_other_options_of_the_session_change_nothing(directory: Path) -> None:
    text = graph("three").replace(
        'servable_name: "three"',
        'servable_name: "three" service_url: "other:9000" server_config: "/models/config.json" '
        'log_level: "DEBUG"',
    )
    assert answer(text, DirectoryModels(directory)) == 3


def test_a_model_is_loaded_once(directory: Path) -> None:
    models = DirectoryModels(directory)
    text = graph("times")
    assert answer(text, models) == 10
    (directory / "times" / "10" / "other_name.bin").unlink()
    assert answer(text, models) == 10


@pytest.mark.parametrize(
    ("name", "version", "code", "message"),
    [
        ("time", None, Code.NOT_FOUND, 'there is no model "time"'),
        ("time", None, Code.NOT_FOUND, 'Did you mean "times"'),
        ("times", "3", Code.NOT_FOUND, 'the model "times" has no version 3; it has 2, 10'),
        ("three", "2", Code.NOT_FOUND, 'the model "three" has no version 2; it has 1'),
        ("empty", None, Code.NOT_FOUND, 'version 1 of the model "empty" has no file that ends in'),
        ("../three", None, Code.NOT_FOUND, '"../three" is not the name of a model'),
        (
            "broken",
            None,
            Code.FAILED_PRECONDITION,
            'the model "broken" (version 1) cannot be loaded: OpenVINO on CPU: ',
        ),
    ],
)
def test_a_missing_model_fails_the_run(
    directory: Path, name: str, version: str | None, code: Code, message: str
) -> None:
    with pytest.raises(RunError) as caught:
        answer(graph(name, version), DirectoryModels(directory))
    assert message in str(caught.value)
    assert caught.value.code is code
    assert str(directory) not in str(caught.value)
    assert ".cpp" not in str(caught.value)


def test_a_tensor_that_numpy_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    x = named(op.parameter([2], openvino.Type.u4, name="X"), "X")
    y = named(op.convert(x, np.float32), "Y")
    save(openvino.Model([op.result(y)], [x], "m"), tmp_path / "m.xml")
    with pytest.raises(RunError) as caught:
        answer(graph("m"), DirectoryModels(tmp_path))
    reason = 'the model "m" (version 1) cannot be loaded: its tensor "X" has the element type u4'
    assert reason in str(caught.value)
    assert caught.value.code is Code.UNIMPLEMENTED


@pytest.mark.parametrize("version", ["-1", "one", "1.0", "9999999999"])
def test_an_invalid_version_is_refused_at_validation(version: str) -> None:
    with pytest.raises(ValidationError, match=f'servable_version: "{version}" is no version'):
        validate_graph(parse_graph_text(graph("any", version)), registry=registry())


def test_a_session_without_a_name_is_refused_at_validation() -> None:
    text = """
    node {
      calculator: "OpenVINOModelServerSessionCalculator"
      output_side_packet: "SESSION:session"
    }
    """
    with pytest.raises(ValidationError, match="servable_name is missing"):
        validate_graph(parse_graph_text(text), registry=registry())


def test_models_that_a_graph_before_has_loaded_are_taken_unless_their_files_changed(
    directory: Path,
) -> None:
    async def scenario() -> None:
        before = DirectoryModels(directory)
        three, two = await before.get("three"), await before.get("times", 2)
        after = DirectoryModels(directory)
        after.follow(before)
        save(times(5), directory / "three.xml")
        assert await after.get("times", 2) is two
        changed = await after.get("three")
        assert changed is not three
        assert (await changed.infer({"X": np.ones(1, np.float32)}))["Y"][0] == 5
        assert (await three.infer({"X": np.ones(1, np.float32)}))["Y"][0] == 3
        assert await before.get("three") is three
        unused = DirectoryModels(directory)
        unused.follow(after)
        last = DirectoryModels(directory)
        last.follow(unused)
        assert await last.get("three") is changed

    asyncio.run(scenario())
