"""Models with string tensors, in and out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset15 as op

from calculators.tensors.openvino.model import Model, TensorError
from calculators.tensors.openvino.model_loading import load_model
from calculators.tensors.openvino.model_settings import TOKENIZERS, ModelSettings
from tests.calculators.tensors.openvino.tiny_models import named, parameter, save
from tests.support.checkout import ROOT

DEMO = ROOT / "examples" / "models" / "demo"


def passing_model() -> Any:
    """Build ``SAME`` = ``TEXT``, strings of any number, and ``SUM`` = ``X`` + 1."""
    text = parameter("TEXT", [-1], openvino.Type.string)
    x = parameter("X", [2])
    same = named(op.string_tensor_pack(*op.string_tensor_unpack(text).outputs()), "SAME")
    total = named(op.add(x, np.float32(1)), "SUM")
    results = [op.result(same), op.result(total)]
    return openvino.Model(results, [text, x], "passing")


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> Model:
    file = tmp_path_factory.mktemp("models") / "passing.xml"
    save(passing_model(), file)
    return load_model(file, "passing")


def strings(*texts: bytes) -> Any:
    made = np.empty(len(texts), object)
    made[:] = texts
    return made


@pytest.mark.parametrize(
    "texts",
    [
        (b"one", b"", "zwölf 🦆".encode()),
        (b"",),
        (b"", b"", b""),
        (b"\0in the middle\0", b"\xff\xfe no UTF-8", b"end\0"),
        tuple(b"%d" % number for number in range(20_000)),
    ],
)
def test_strings_come_out_as_they_went_in(passing: Model, texts: tuple[bytes, ...]) -> None:
    numbers = np.array([1, 2], np.float32)
    found = asyncio.run(passing.infer({"TEXT": strings(*texts), "X": numbers}))
    assert found["SAME"].tolist() == list(texts)
    assert found["SUM"].tolist() == [2, 3]


@pytest.mark.parametrize("kind", [object, "U8", "S8"])
def test_nodes_may_give_arrays_of_any_kind_of_string(passing: Model, kind: Any) -> None:
    words = np.array(["a", "bc"], kind)
    found = asyncio.run(passing.infer({"TEXT": words, "X": np.zeros(2, np.float32)}))
    assert found["SAME"].tolist() == [b"a", b"bc"]


def test_the_tensors_are_named_and_shaped_as_in_the_file(passing: Model) -> None:
    assert [spec.name for spec in passing.inputs] == ["TEXT", "X"]
    assert [spec.element_type for spec in passing.outputs] == ["string", "f32"]
    assert passing.inputs[0].shape_text == "[?]"


def test_bf16_stands_beside_strings(tmp_path: Path) -> None:
    text, x = parameter("TEXT", [-1], openvino.Type.string), parameter("X", [2], openvino.Type.bf16)
    results = [op.result(text.output(0)), op.result(named(op.add(x, x), "Y"))]
    save(openvino.Model(results, [text, x], "both"), tmp_path / "both.xml")
    model = load_model(tmp_path / "both.xml", "both")
    one = np.full(2, 0x3F80, np.uint16)
    found = asyncio.run(model.infer({"TEXT": strings(b"a"), "X": one}))
    assert found["Y"].tolist() == [0x4000, 0x4000]


def test_numbers_are_no_strings(passing: Model) -> None:
    given = {"TEXT": np.zeros(2, np.float32), "X": np.zeros(2, np.float32)}
    with pytest.raises(TensorError, match='tensor "TEXT": the element type is float32, object is'):
        asyncio.run(passing.infer(given))


def test_no_strings_are_refused(passing: Model) -> None:
    with pytest.raises(TensorError, match='tensor "TEXT": one string at least is expected'):
        asyncio.run(passing.infer({"TEXT": strings(), "X": np.zeros(2, np.float32)}))


def test_a_model_may_answer_with_no_strings(tmp_path: Path) -> None:
    places = parameter("I", [-1], np.int32)
    begins, ends = (
        op.gather(op.constant(np.array(each, np.int32)), places, op.constant(0))
        for each in ([0, 1], [1, 2])
    )
    text = op.constant(np.frombuffer(b"ab", np.uint8))
    chosen = named(op.string_tensor_pack(begins, ends, text), "CHOSEN")
    save(openvino.Model([op.result(chosen)], [places], "choice"), tmp_path / "choice.xml")
    model = load_model(tmp_path / "choice.xml", "choice", settings=ModelSettings(nireq=1))

    async def scenario() -> list[list[bytes]]:
        asked = [np.array(each, np.int32) for each in ([0, 1], [], [1])]
        return [(await model.infer({"I": each}))["CHOSEN"].tolist() for each in asked]

    assert asyncio.run(scenario()) == [[b"a", b"b"], [], [b"b"]]


def test_a_library_of_operations_reads_texts() -> None:
    settings = ModelSettings(extension=TOKENIZERS)
    reader = load_model(DEMO / "openvino_tokenizer.xml", "reader", settings=settings)
    writer = load_model(DEMO / "openvino_detokenizer.xml", "writer", settings=settings)

    async def there_and_back() -> list[bytes]:
        (name,) = [spec.name for spec in reader.inputs]
        tokens = await reader.infer({name: strings(b"a small test")})
        (ids,) = [spec.name for spec in writer.inputs]
        written = await writer.infer({ids: tokens["input_ids"]})
        (texts,) = written.values()
        return [bytes(text) for text in texts]

    assert asyncio.run(there_and_back()) == [b"a small test"]
