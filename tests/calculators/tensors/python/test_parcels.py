"""Values that cross to a handler's process and back are the same as in a thread."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import FormFile, HttpPayload, MultipartForm
from calculators.tensors.python.messages import ALIGNMENT, Head, joined, packed, unpacked
from calculators.tensors.python.pyovms import DTYPES, Tensor
from tests.calculators.tensors.python.running import PLAIN, loaded

_heads = msgspec.msgpack.Decoder(list[Head])


def carried(*values: Any) -> tuple[bytes, list[Any]]:
    """Return the frame, and the values decoded from it."""
    heads: list[Head] = []
    pieces: list[Any] = []
    for value in values:
        head, data = packed(value)
        heads.append(head)
        pieces += data
    header = msgspec.msgpack.encode(heads)
    frame = b"".join(bytes(piece) for piece in joined(header, pieces))
    return frame, unpacked(frame, _heads.decode(header))


def shown(tensor: Tensor) -> tuple[Any, ...]:
    view = tensor.data
    return tensor.name, tensor.datatype, tensor.shape, view.format, view.shape, bytes(tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        *(Tensor("x", np.ones((2, 3), dtype)) for dtype in DTYPES.values()),
        Tensor("x", b"abcdef", [2, 3], "my_type"),
        Tensor("x", b"\3\0\0\0abc", [1], "BYTES"),
        Tensor("", b""),
        Tensor("é", np.empty((0, 3), np.float32)),
        Tensor("x", np.array(3.5)),
        Tensor("x", np.array(["cat", "zebra"])),
        Tensor("x", np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2]),
        Tensor("x", np.arange(3, dtype=">i4")),
    ],
    ids=str,
)
def test_a_tensor_is_the_same_on_the_other_side(tensor: Tensor) -> None:
    _, (got, after) = carried(tensor, "after")
    assert shown(got) == shown(tensor)
    assert not np.asarray(got).flags.writeable
    assert after == "after"


def test_arrays_are_views_of_the_frame_in_order() -> None:
    frame, tensors = carried(*(Tensor("x", np.arange(n, dtype=np.float64)) for n in (1, 7, 100)))
    memory = np.frombuffer(frame, np.uint8)
    for tensor in tensors:
        assert np.shares_memory(np.asarray(tensor), memory)
        assert (tensor.ptr - memory.ctypes.data) % ALIGNMENT == 0


@pytest.mark.parametrize("text", ["", "né", "half a pair \ud800", b"", b"\xff"])
def test_text_and_bytes_are_distinguished(text: str | bytes) -> None:
    _, (got,) = carried(text)
    assert got == text


@pytest.mark.parametrize(
    "parsed",
    [None, {"n": 3, "é": [1.5, None, True]}, 2**70, "half a pair \ud800", [], float("inf"), False],
)
def test_a_request_is_the_same_except_for_its_client(parsed: Any) -> None:
    headers = {"a": "b", "c": "bytes that are not UTF-8: \udcff"}
    payload = HttpPayload("/v3/x?y", headers, b'{"as": "sent"}', parsed)
    _, (got,) = carried(payload)
    assert (got.uri, got.headers, got.body) == ("/v3/x?y", headers, payload.body)
    assert got.parsed_json == parsed
    assert (got.client.is_disconnected, got.client.is_writable) == (False, True)


def test_a_form_is_the_same() -> None:
    form = MultipartForm(
        {"model": ["m"], "words[]": ["a", "é"]},
        {"file": [FormFile("a b.wav", "audio/wav", b"\0\xff"), FormFile("", "", b"")]},
    )
    payload = HttpPayload("/v3/x", {}, form=form, method="POST")
    _, (got,) = carried(payload)
    assert (got.form, got.parsed_json, got.method) == (form, None, "POST")


def test_an_answer_with_a_content_type_is_the_same() -> None:
    answer = HttpAnswer(b"\0RIFF", "audio/wav", {"X-Rate": "8"}, has_more=True)
    _, (got,) = carried(answer)
    assert got == answer


def test_a_large_tensor_goes_there_and_back(tmp_path: Path) -> None:
    handler = (
        "from pyovms import Tensor\nimport numpy as np\nclass OvmsPythonModel:\n"
        "  def execute(self, inputs): return [Tensor('uppercase', np.array(inputs[0]) + 1)]"
    )
    array = np.arange(2_500_000, dtype=np.float32).reshape(2, 1_250_000)

    async def scenario() -> None:
        async with loaded(tmp_path, handler, PLAIN, "PROCESS") as graph:
            ((_, _, tensor),) = await (await graph.run(Tensor("text", array))).end()
            assert (tensor.shape, tensor.datatype) == ((2, 1_250_000), "FP32")
            assert np.array_equal(np.asarray(tensor), array + 1)

    asyncio.run(scenario())
