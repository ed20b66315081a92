"""``ModelInferRequest`` messages become requests, or errors that name the tensor and the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import CustomTensor, Datatype, Tensor, to_raw
from protos.pool import message_class
from servers.fronts.kserve_grpc import contents
from servers.fronts.kserve_grpc.codec import decode_request
from tests.calculators.tensors.inference.tensors import named, same, tensors

FIELD = {
    Datatype.BOOL: "bool_contents",
    Datatype.INT8: "int_contents",
    Datatype.INT16: "int_contents",
    Datatype.INT32: "int_contents",
    Datatype.INT64: "int64_contents",
    Datatype.UINT8: "uint_contents",
    Datatype.UINT16: "uint_contents",
    Datatype.UINT32: "uint_contents",
    Datatype.UINT64: "uint64_contents",
    Datatype.FP32: "fp32_contents",
    Datatype.FP64: "fp64_contents",
    Datatype.BYTES: "bytes_contents",
}


def request(**fields: Any) -> bytes:
    """Return a message as it arrives."""
    return message_class("inference.ModelInferRequest")(**fields).SerializeToString()


def one_input(datatype: str, shape: list[int], **fields: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": datatype, "shape": shape, **fields}


@given(st.lists(tensors(), max_size=3).map(named))
def test_raw_inputs_are_decoded(inputs: tuple[Tensor, ...]) -> None:
    message = request(
        inputs=[{"name": t.name, "datatype": t.datatype, "shape": t.shape} for t in inputs],
        raw_input_contents=[bytes(to_raw(tensor)) for tensor in inputs],
    )

    decoded = [each for each in decode_request(message).inputs if isinstance(each, Tensor)]

    assert len(decoded) == len(inputs)
    assert all(map(same, decoded, inputs))


@given(tensors().filter(lambda tensor: tensor.datatype in FIELD))
def test_typed_inputs_are_decoded(tensor: Tensor) -> None:
    elements = tensor.data.ravel().tolist()
    contents = {FIELD[tensor.datatype]: elements}
    message = request(inputs=[one_input(tensor.datatype, list(tensor.shape), contents=contents)])

    (decoded,) = decode_request(message).inputs

    assert isinstance(decoded, Tensor)
    assert (decoded.datatype, decoded.shape) == (tensor.datatype, tensor.shape)
    if tensor.data.dtype.kind == "f":  # the bits of a NaN may change in Python's own floats
        np.testing.assert_array_equal(decoded.data, tensor.data)
    else:
        assert same(decoded, tensor)


def test_all_members_of_a_request_are_decoded() -> None:
    decoded = decode_request(
        request(
            model_name="m",
            model_version="3",
            id="seven",
            parameters={
                "b": {"bool_param": False},
                "i": {"int64_param": -5},
                "s": {"string_param": ""},
                "d": {"double_param": 0.5},
                "u": {"uint64_param": 2**64 - 1},
            },
            inputs=[one_input("INT8", [1], parameters={"p": {"string_param": "q"}})],
            outputs=[{"name": "y", "parameters": {"r": {"bool_param": True}}}, {"name": "z"}],
            raw_input_contents=[b"\xff"],
        )
    )

    assert (decoded.model, decoded.version, decoded.id) == ("m", "3", "seven")
    assert decoded.parameters == {"b": False, "i": -5, "s": "", "d": 0.5, "u": 2**64 - 1}
    assert [type(value) for value in decoded.parameters.values()].count(bool) == 1
    (tensor,) = decoded.inputs
    assert isinstance(tensor, Tensor)
    assert (tensor.name, tensor.data.tolist(), tensor.parameters) == ("x", [-1], {"p": "q"})
    assert [(o.name, o.parameters) for o in decoded.requested_outputs] == [
        ("y", {"r": True}),
        ("z", {}),
    ]


def test_an_empty_contents_message_does_not_count_as_data() -> None:
    message = request(inputs=[one_input("INT8", [1], contents={})], raw_input_contents=[b"\x05"])

    assert decode_request(message).inputs[0].data.tolist() == [5]


TYPED = {"fp32_contents": [1.0]}
BOTH = {"fp32_contents": [1.0], "int_contents": [1]}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"inputs": [one_input("FP32", [1], contents=TYPED)], "raw_input_contents": [b"\0" * 4]},
            'inputs[0] "x": data both in contents and in raw_input_contents is not allowed',
        ),
        (
            {"inputs": [one_input("FP32", [1])], "raw_input_contents": [b"\0" * 4] * 2},
            "raw_input_contents has 2 parts for 1 inputs; it must have one for each",
        ),
        (
            {"raw_input_contents": [b""]},
            "raw_input_contents has 1 parts for 0 inputs; it must have one for each",
        ),
        (
            {"inputs": [one_input("FP32", [2])], "raw_input_contents": [b"\0" * 4]},
            'inputs[0] "x": FP32 of the shape [2] takes 8 bytes, 4 came',
        ),
        (
            {"inputs": [one_input("FP32", [2], contents=TYPED)]},
            'inputs[0] "x": the shape [2] has 2 elements, contents.fp32_contents has 1',
        ),
        (
            {"inputs": [one_input("FP32", [2])]},
            'inputs[0] "x": the shape [2] has 2 elements, contents.fp32_contents has 0',
        ),
        (
            {"inputs": [one_input("INT32", [1], contents=BOTH)]},
            'inputs[0] "x": INT32 belongs into contents.int_contents, but contents.fp32_contents'
            " has 1 elements",
        ),
        (
            {"inputs": [one_input("FP16", [1], contents=TYPED)]},
            'inputs[0] "x": FP16 has no field in contents; send it in raw_input_contents',
        ),
        (
            {"inputs": [one_input("BF16", [0])]},
            'inputs[0] "x": BF16 has no field in contents; send it in raw_input_contents',
        ),
        (
            {"inputs": [one_input("INT8", [2], contents={"int_contents": [1, 128]})]},
            'inputs[0] "x": element 1 is 128; INT8 goes from -128 to 127',
        ),
        (
            {"inputs": [one_input("INT16", [1], contents={"int_contents": [-(2**31)]})]},
            'inputs[0] "x": element 0 is -2147483648; INT16 goes from -32768 to 32767',
        ),
        (
            {"inputs": [one_input("UINT16", [1], contents={"uint_contents": [65536]})]},
            'inputs[0] "x": element 0 is 65536; UINT16 goes from 0 to 65535',
        ),
        (
            {"inputs": [one_input("FP32", [-1], contents=TYPED)]},
            'inputs[0] "x": the shape [-1] has a negative dimension; the shape of data is known',
        ),
        (
            {"inputs": [one_input("FP32", [2**62, 8])], "raw_input_contents": [b""]},
            'inputs[0] "x": the shape [4611686018427387904, 8] has too many elements; at most'
            " 2147483647 can be",
        ),
        (
            {"inputs": [one_input("FP32", [2**32, 2**32])], "raw_input_contents": [b""]},
            'inputs[0] "x": the shape [4294967296, 4294967296] has too many elements; at most'
            " 2147483647 can be",
        ),
        (
            {"inputs": [one_input("INT8", [0]), one_input("INT8", [0])]},
            'inputs[0] and inputs[1] have the same name, "x"',
        ),
        ({"inputs": [{"datatype": "INT8", "shape": [0]}]}, "inputs[0] has no name"),
        ({"outputs": [{"name": "y"}] * 2}, 'outputs[0] and outputs[1] have the same name, "y"'),
        ({"parameters": {"p": {}}}, 'the request: the parameter "p" has no value'),
        (
            {"inputs": [one_input("INT8", [0], parameters={"p": {}})]},
            'inputs[0] "x": the parameter "p" has no value',
        ),
        (
            {
                "inputs": [
                    one_input(
                        "INT8", [1], parameters={"shared_memory_region": {"string_param": ""}}
                    )
                ]
            },
            'inputs[0] "x": shared memory is not supported; send the data itself',
        ),
        (
            {
                "outputs": [
                    {"name": "y", "parameters": {"shared_memory_region": {"string_param": "r"}}}
                ]
            },
            'outputs[0] "y": shared memory is not supported; send the data itself',
        ),
    ],
)
def test_a_wrong_request_is_refused_by_name(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError) as caught:
        decode_request(request(**fields))
    assert caught.value.message == text


def test_an_unknown_datatype_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match=r'^inputs\[0\] "x": unknown datatype "FLOAT"; .*FP32'):
        decode_request(request(inputs=[one_input("FLOAT", [1], contents=TYPED)]))


def test_many_typed_elements_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_TYPED", 3)
    message = request(inputs=[one_input("INT8", [4], contents={"int_contents": [0] * 4})])

    with pytest.raises(RequestError, match=r"can have 3 elements, not 4; .* raw_input_contents"):
        decode_request(message)


@given(st.binary(max_size=200))
def test_any_bytes_become_a_request_or_a_request_error(content: bytes) -> None:
    try:
        decode_request(content)
    except RequestError:
        return
    message_class("inference.ModelInferRequest").FromString(content)  # protobuf agrees


GOOD = request(inputs=[one_input("UINT8", [300])], raw_input_contents=[bytes(300)])


@pytest.mark.parametrize(
    "content",
    [
        GOOD[:-1],
        GOOD[:1],
        GOOD + b"\x3a",
        GOOD + b"\x3a\xff\xff\xff\xff\x7f",  # longer than the rest
        b"\xff" * 100_000,  # a number without an end
        b"\x0a\x01\xff",  # not UTF-8
        b"\x0b\x0c",  # a group
        b"\x0d\x00",  # half a number
    ],
)
def test_invalid_messages_are_refused(content: bytes) -> None:
    with pytest.raises(RequestError, match=r"^the request is not a (message|ModelInferRequest)"):
        decode_request(content)


def test_fields_of_later_versions_are_skipped() -> None:
    later = b"\xa0\x06\x96\x01" + b"\xa1\x06" + bytes(8) + b"\xa5\x06" + bytes(4) + b"\xa2\x06\x01z"
    assert decode_request(later + GOOD + later).inputs[0].shape == (300,)


def test_raw_contents_may_be_anywhere_in_the_message() -> None:
    message = request(inputs=[one_input("UINT8", [2]), {**one_input("UINT8", [1]), "name": "y"}])
    raws = request(raw_input_contents=[b"\x01\x02"]), request(raw_input_contents=[b"\x03"])

    decoded = decode_request(raws[0] + message + raws[1] + request(id="seven"))

    assert decoded.id == "seven"
    assert [t.data.tolist() for t in decoded.inputs if isinstance(t, Tensor)] == [[1, 2], [3]]


def test_a_request_with_too_many_fields_is_refused() -> None:
    with pytest.raises(RequestError, match="more than 4096 fields"):
        decode_request(b"\x2a\x00" * 4097)


def test_large_data_that_is_not_raw_is_refused_before_parsing() -> None:
    message = request(inputs=[one_input("BYTES", [1], contents={"bytes_contents": [bytes(1000)]})])
    with pytest.raises(RequestError, match=r"bytes besides raw_input_contents; at most 1000 can"):
        decode_request(message, max_parsed_bytes=1000)
    assert decode_request(GOOD, max_parsed_bytes=1000).inputs


def test_thousands_of_parameters_are_refused() -> None:
    parameters = {str(at): {"bool_param": True} for at in range(1025)}
    with pytest.raises(RequestError, match=r"the request: there can be 1024 parameters, not 1025"):
        decode_request(request(parameters=parameters))


def test_a_raw_tensor_of_a_custom_datatype_is_passed_on() -> None:
    inputs = [one_input("my.Image", [7, 2], parameters={"p": {"string_param": "q"}})]

    (tensor,) = decode_request(request(inputs=inputs, raw_input_contents=[b"any"])).inputs

    assert isinstance(tensor, CustomTensor)
    assert (tensor.name, tensor.datatype, tensor.shape) == ("x", "my.Image", (7, 2))
    assert (bytes(tensor.data), tensor.parameters) == (b"any", {"p": "q"})


def test_a_raw_tensor_without_a_datatype_is_refused() -> None:
    with pytest.raises(RequestError, match=r'^inputs\[0\] "x": unknown datatype ""'):
        decode_request(request(inputs=[one_input("", [1])], raw_input_contents=[b"any"]))


def test_a_raw_tensor_is_a_view_of_the_message() -> None:
    (tensor,) = decode_request(GOOD).inputs

    assert isinstance(tensor, Tensor)
    assert np.shares_memory(tensor.data, np.frombuffer(GOOD, np.uint8))


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "name": st.sampled_from(["", "a", "b"]),
                "datatype": st.sampled_from(["FP32", "BYTES", "INT8", "BF16", "BOOL", "?"]),
                "shape": st.lists(
                    st.sampled_from([-1, 0, 1, 2, 3, 2**31, 2**62, 2**63 - 1]), max_size=3
                ),
                "contents": st.sampled_from(
                    [
                        {},
                        {"fp32_contents": [1.0]},
                        {"int_contents": [1, 300]},
                        {"bytes_contents": [b""]},
                    ]
                ),
            }
        ),
        max_size=3,
    ),
    st.lists(st.sampled_from([b"", b"\x01", b"\x02\0\0\0", b"\0" * 8]), max_size=3),
)
def test_any_message_becomes_a_request_or_a_request_error(
    inputs: list[dict[str, Any]], raws: list[bytes]
) -> None:
    try:
        decoded = decode_request(request(inputs=inputs, raw_input_contents=raws))
    except RequestError:
        return
    assert [tensor.shape for tensor in decoded.inputs] == [tuple(i["shape"]) for i in inputs]


NUMBERS: dict[str, tuple[str, list[Any]]] = {
    "BOOL": ("bool_contents", [True, False]),
    "INT8": ("int_contents", [-128, 0, 127]),
    "INT32": ("int_contents", [-(2**31), -1, 0, 1, 300, 2**31 - 1]),
    "UINT16": ("uint_contents", [0, 127, 128, 65535]),
    "INT64": ("int64_contents", [-(2**63), -1, 0, 2**40, 2**63 - 1]),
    "UINT64": ("uint64_contents", [0, 2**35, 2**64 - 1]),
    "FP32": ("fp32_contents", [0.5, -1.0, float("inf")]),
    "FP64": ("fp64_contents", [0.1, -1e300]),
}


@pytest.mark.parametrize("count", [3, 5000])
@pytest.mark.parametrize("datatype", NUMBERS)
def test_contents_of_any_length_are_the_same_numbers(datatype: str, count: int) -> None:
    field, few = NUMBERS[datatype]
    numbers = [few[index % len(few)] for index in range(count)]
    message = request(inputs=[one_input(datatype, [count], contents={field: numbers})])
    (tensor,) = decode_request(message).inputs
    assert isinstance(tensor, Tensor)
    assert tensor.data.tolist() == numbers
    assert not tensor.data.flags.writeable


@pytest.mark.parametrize("count", [3, 5000])
def test_contents_of_any_length_must_fit(count: int) -> None:
    for kind, shape, typed, text in [
        ("INT8", [count], {"int_contents": [0] * (count - 1) + [300]}, f"element {count - 1} is"),
        ("INT32", [count + 1], {"int_contents": [0] * count}, f"has {count + 1} elements"),
        ("FP32", [count], {"int_contents": [0] * count}, "belongs into contents.fp32_contents"),
        ("FP32", [count], {"fp32_contents": [0] * count, "int_contents": [1]}, "belongs into"),
    ]:
        with pytest.raises(RequestError, match=text):
            decode_request(request(inputs=[one_input(kind, shape, contents=typed)]))


def test_a_long_number_of_packed_contents_is_refused() -> None:
    numbers = b"\x01" * 4000 + b"\x81" * 999 + b"\x01"
    good = request(inputs=[one_input("INT64", [4001], contents={"int64_contents": [1] * 5000})])
    with pytest.raises(RequestError, match="too long"):
        decode_request(good.replace(b"\x01" * 5000, numbers))


def test_a_shape_of_a_million_dimensions_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(RequestError, match=r"inputs\[0\]: name, shape and parameters have"):
        decode_request(request(inputs=[one_input("INT64", [1] * 1_000_000)]))
