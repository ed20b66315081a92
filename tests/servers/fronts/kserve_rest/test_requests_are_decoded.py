"""Bodies of inference requests become requests, or errors that name the tensor and the reason."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import CustomTensor, Datatype, Tensor, to_raw
from servers.fronts.http.errors import HttpError
from servers.fronts.kserve_rest.inference_codec import read_layout, split_body
from tests.calculators.tensors.inference.tensors import named, same, tensors
from tests.servers.fronts.kserve_rest.bodies import one_input, read, read_value, tensors_of

NO_DATA = (
    "there is no data: give it as data, or as binary data behind the JSON with the parameter"
    " binary_data_size"
)


def is_sayable(tensor: Tensor) -> bool:
    """Return True if the tensor has a form in JSON."""
    if tensor.data.dtype.kind == "f":
        return bool(np.isfinite(tensor.data).all())
    return tensor.datatype != Datatype.BF16


def json_data(tensor: Tensor) -> Any:
    """Return nested lists, as in a client's JSON."""
    if tensor.datatype == Datatype.BYTES:
        return np.vectorize(bytes.decode, otypes=[object])(tensor.data).tolist()
    return tensor.data.tolist()


def is_text(tensor: Tensor) -> bool:
    try:
        return all(isinstance(element.decode(), str) for element in tensor.data.flat)
    except UnicodeDecodeError:
        return False


SAYABLE = tensors().filter(is_sayable).filter(lambda t: t.datatype != Datatype.BYTES or is_text(t))


@given(SAYABLE.filter(lambda tensor: tensor.shape != () and tensor.data.size))
def test_nested_and_flat_data_are_decoded(tensor: Tensor) -> None:
    nested = json_data(tensor)
    flat = np.array(nested, dtype=object).ravel().tolist()
    for data in (nested, flat):
        decoded = read_value({"inputs": [one_input(tensor.datatype, tensor.shape, data=data)]})
        (back,) = tensors_of(decoded)
        assert same(back, tensor)


@given(st.lists(tensors(), max_size=3).map(named), st.data())
def test_binary_data_is_decoded(inputs: tuple[Tensor, ...], draw: st.DataObject) -> None:
    """Also beside inputs in JSON."""
    members = []
    tail = b""
    for tensor in inputs:
        member: dict[str, Any] = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": tensor.shape,
        }
        if is_sayable(tensor) and tensor.datatype != Datatype.BYTES and draw.draw(st.booleans()):
            member["data"] = tensor.data.ravel().tolist()
        else:
            raw = bytes(to_raw(tensor))
            member["parameters"] = {"binary_data_size": len(raw)}
            tail += raw
        members.append(member)

    decoded = tensors_of(read_value({"inputs": members}, tail))

    assert len(decoded) == len(inputs)
    assert all(map(same, decoded, inputs))
    assert all(not tensor.parameters for tensor in decoded)


@pytest.mark.parametrize(
    ("shape", "data"), [([], [5]), ([1], [5]), ([0], []), ([2, 0], [[], []]), ([0, 3], [])]
)
def test_tensors_may_have_one_element_or_none(shape: list[int], data: list[Any]) -> None:
    (tensor,) = tensors_of(read_value({"inputs": [one_input("INT32", shape, data=data)]}))

    assert tensor.shape == tuple(shape)
    assert tensor.data.ravel().tolist() == [5] * tensor.data.size


def test_a_number_without_a_fraction_is_an_integer() -> None:
    exact = one_input("INT64", [2.0, 1e0], data=[3.0, -4])
    sized = {
        "name": "y", "datatype": "INT8", "shape": [1], "parameters": {"binary_data_size": 1.0}
    }  # fmt: skip

    decoded = read_value({"inputs": [exact, sized]}, b"\x05")

    first, second = tensors_of(decoded)
    assert first.data.tolist() == [[3], [-4]]
    assert second.data.tolist() == [5]


def test_all_members_of_a_request_are_decoded() -> None:
    decoded = read_value(
        {
            "id": "seven",
            "model_name": "passed over",
            "parameters": {"b": False, "i": -5, "s": "", "d": 0.5, "u": 2**64 - 1},
            "inputs": [
                one_input("FP32", [2, 1], data=[1, 2.5], parameters={"p": "q"}),
                {"name": "t", "datatype": "BYTES", "shape": [1], "data": ["é"]},
            ],
            "outputs": [
                {"name": "y", "parameters": {"binary_data": True, "r": 1}},
                {"name": "z", "parameters": None},
            ],
        }
    )

    request = decoded.request
    assert (request.model, request.version, request.id) == ("m", "1", "seven")
    assert request.parameters == {"b": False, "i": -5, "s": "", "d": 0.5, "u": 2**64 - 1}
    number, text = tensors_of(decoded)
    assert number.data.tolist() == [[1.0], [2.5]]
    assert (number.name, number.parameters) == ("x", {"p": "q"})
    assert text.data.tolist() == ["é".encode()]
    outputs = [(output.name, output.parameters) for output in request.requested_outputs]
    assert outputs == [("y", {"r": 1}), ("z", {})]
    assert (decoded.binary.wants("y"), decoded.binary.wants("z")) == (True, False)


def test_a_request_may_want_all_outputs_but_one_in_binary() -> None:
    decoded = read_value(
        {
            "parameters": {"binary_data_output": True},
            "inputs": [],
            "outputs": [{"name": "y"}, {"name": "z", "parameters": {"binary_data": False}}],
        }
    )

    assert decoded.request.parameters == {}
    assert [decoded.binary.wants(name) for name in "yz"] == [True, False]


def test_the_size_of_binary_data_may_follow_from_the_shape() -> None:
    numbers = [one_input("INT16", [2]), {"name": "y", "datatype": "UINT8", "shape": [1]}]
    texts = [one_input("BYTES", [2])]

    x, y = tensors_of(read_value({"inputs": numbers}, b"\x01\0\x02\0\x03"))
    (text,) = tensors_of(read_value({"inputs": texts}, b"\x01\0\0\0a\0\0\0\0"))

    assert (x.data.tolist(), y.data.tolist()) == ([1, 2], [3])
    assert text.data.tolist() == [b"a", b""]


@pytest.mark.parametrize("told", [True, False])
def test_custom_datatypes_are_accepted_in_binary(told: bool) -> None:
    parameters = {"p": 1, "binary_data_size": 3} if told else {"p": 1}
    member = one_input("my_type", [7, 2], parameters=parameters)

    (tensor,) = read_value({"inputs": [member]}, b"abc").request.inputs

    assert isinstance(tensor, CustomTensor)
    assert (tensor.name, tensor.datatype, tensor.shape) == ("x", "my_type", (7, 2))
    assert (bytes(tensor.data), tensor.parameters) == (b"abc", {"p": 1})


def test_an_empty_tensor_may_have_a_custom_datatype() -> None:
    member = one_input("my_type", [0], parameters={"binary_data_size": 0})

    (tensor,) = read_value({"inputs": [member]}).request.inputs

    assert isinstance(tensor, CustomTensor)
    assert bytes(tensor.data) == b""


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ([one_input("my_type", [1], data=["a"])], 'unknown datatype "my_type"; the datatypes are'),
        ([one_input("my_type", [-1])], "the shape [-1] has a negative dimension"),
        ([one_input("my_type", [1], parameters={"binary_data_size": 9})], "3 are left in the body"),
        ([one_input("", [1])], 'unknown datatype ""; the datatypes are'),
        ([one_input("my_type", [1]), {**one_input("my_type", [1]), "name": "y"}], NO_DATA),
    ],
)
def test_data_of_custom_datatypes_is_checked_as_far_as_possible(
    members: list[Any], text: str
) -> None:
    with pytest.raises(RequestError) as caught:
        read_value({"inputs": members}, b"abc")
    assert text in caught.value.message


def test_large_binary_data_is_not_copied() -> None:
    head = json.dumps({"inputs": [one_input("UINT8", [64])]}).encode()
    body = head + bytes(64)

    (tensor,) = tensors_of(read(body, str(len(head))))

    assert np.shares_memory(tensor.data, np.frombuffer(body, np.uint8))


@pytest.mark.parametrize(
    ("member", "text"),
    [
        (one_input("FP32", ["1"], data=[1.0]), "the shape has a string in it; it must be an"),
        (one_input("FP32", [True], data=[1.0]), "the shape has true or false in it; it must"),
        (one_input("FP32", [1e300], data=[1.0]), "has too many elements"),
        (one_input("FP32", 1, data=[1.0]), "the shape is an integer; it must be an array"),
        ({"name": "x", "datatype": "FP32", "data": [1]}, "the shape is missing; it must be"),
        (one_input("FP32", [-1], data=[1.0]), "the shape [-1] has a negative dimension"),
        (one_input("FP32", [2**62, 8], data=[1.0]), "has too many elements"),
        (one_input("FP32", [2**62, 8]), "has too many elements"),
        (one_input("FP32", [10**60, 0], data=[]), "has too many elements"),
        (one_input("FP32", [1] * 100, data=[1.0]), "the shape has 100 dimensions"),
        (one_input("FP31", [1], data=[1.0]), 'unknown datatype "FP31"; the datatypes are BOOL'),
        (one_input("", [1], data=[1.0]), 'unknown datatype ""; the datatypes are BOOL'),
        (one_input("FP32", [1], data=1.5), "data must be an array, not a number with a fraction"),
        (one_input("FP32", [1], data="1"), "data must be an array, not a string"),
        (one_input("FP32", [1], data={}), "data must be an array, not an object"),
        (one_input("FP32", [3], data=[1]), "the shape [3] has 3 elements, data has 1"),
        (one_input("FP32", [1], data=[1, 2]), "the shape [1] has 1 elements, data has 2"),
        (one_input("FP32", [], data=[]), "the shape [] has 1 elements, data has 0"),
        (one_input("FP32", [1], data=["a"]), "data[0] is a string; FP32 is made of numbers"),
        (one_input("FP32", [2], data=[1, None]), "data[1] is null; FP32 is made of numbers"),
        (one_input("FP32", [1], data=[True]), "data[0] is true or false; FP32 is made of numbers"),
        (one_input("INT8", [1], data=[1.5]), "data[0] is a number with a fraction; INT8 is made"),
        (one_input("INT8", [1], data=[300.0]), "data[0] is out of range: INT8 goes from -128"),
        (one_input("FP32", [1.5], data=[1.0]), "the shape has a number with a fraction in it"),
        (
            one_input("INT8", [1], data=[False]),
            "data[0] is true or false; INT8 is made of integers",
        ),
        (one_input("BOOL", [1], data=[1]), "data[0] is an integer; BOOL is made of true and false"),
        (one_input("BYTES", [1], data=[1]), "data[0] is an integer; BYTES is made of strings"),
        (one_input("FP32", [2], data=[1, [2]]), "data[1] is an array; FP32 is made of numbers"),
        (
            one_input("FP32", [2, 2], data=[[1, 2], [3, "4"]]),
            "data[1][1] is a string; FP32 is made of numbers",
        ),
        (
            one_input("INT8", [3], data=[1, 128, 300]),
            "data[1] is out of range: INT8 goes from -128 to 127",
        ),
        (one_input("UINT64", [1], data=[-1]), "data[0] is out of range: UINT64 goes from 0 to"),
        (one_input("INT64", [1], data=[2**63]), "data[0] is out of range: INT64 goes from"),
        (one_input("FP32", [2], data=[0, 1e39]), "data[1] is out of the range of FP32"),
        (one_input("FP16", [1], data=[70000]), "data[0] is out of the range of FP16"),
        (one_input("BF16", [1], data=[1.0]), "BF16 has no form in JSON; send it as binary data"),
        (
            one_input("FP32", [2, 2], data=[[1, 2], [3]]),
            "data[1] has 1 elements; the shape [2, 2] wants an array of 2 there",
        ),
        (
            one_input("FP32", [2, 2], data=[[1, 2], 3]),
            "data[1] is an integer; the shape [2, 2] wants an array of 2 there",
        ),
        (
            one_input("FP32", [2, 1, 2], data=[[[1, 2]], [[3, 4, 5]]]),
            "data[1][0] has 3 elements; the shape [2, 1, 2] wants an array of 2 there",
        ),
        (
            one_input("FP32", [3, 1], data=[[1], [2]]),
            "data has 2 elements; the shape [3, 1] wants an array of 3 there",
        ),
        (
            one_input("FP32", [1, 4], data=[[1, 2], [3, 4]]),
            "data has 2 elements; the shape [1, 4] wants an array of 1 there",
        ),
        (one_input("FP32", [4], data=[[1, 2, 3, 4]]), "data has 1 elements; the shape [4] wants"),
        (one_input("FP32", [1], data=[[1]]), "data[0] is an array; FP32 is made of numbers"),
        (one_input("FP32", [1]), NO_DATA),
        (one_input("FP32", [1], data=None), NO_DATA),
        (one_input("BYTES", [1]), NO_DATA),
        (
            one_input("FP32", [1], data=[1], parameters={"binary_data_size": 4}),
            "data and binary_data_size exclude each other",
        ),
        (
            one_input("FP32", [1], parameters={"binary_data_size": 4}),
            "the binary data should have 4 bytes, 0 are left in the body",
        ),
        (one_input("FP32", [1], parameters={"p": None}), 'the parameter "p" is null; it must be'),
        (one_input("FP32", [1], parameters={"p": []}), 'the parameter "p" is an array; it must be'),
        (one_input("FP32", [1], parameters={"p": 2**64}), 'the parameter "p" needs more than 64'),
        (one_input("FP32", [1], parameters=[]), "parameters must be an object, not an array"),
        (
            one_input("FP32", [1], parameters={"shared_memory_region": "r"}),
            "shared memory is not supported; send the data itself",
        ),
    ],
)
def test_a_wrong_input_is_refused_by_name(member: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_value({"inputs": [member]})
    assert caught.value.message.startswith('inputs[0] "x": ')
    assert text in caught.value.message


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (-1, "binary_data_size must be a number of bytes"),
        ("4", "binary_data_size must be a number of bytes"),
        (4.5, "binary_data_size must be a number of bytes"),
        (True, "binary_data_size must be a number of bytes"),
        (2**63, "the binary data should have 9223372036854775808 bytes, 4 are left in the body"),
        (5, "the binary data should have 5 bytes, 4 are left in the body"),
        (3, "FP32 of the shape [1] takes 4 bytes, 3 came"),
    ],
)
def test_a_wrong_size_of_binary_data_is_refused(size: object, text: str) -> None:
    member = one_input("FP32", [1], parameters={"binary_data_size": size})
    with pytest.raises(RequestError) as caught:
        read_value({"inputs": [member]}, b"\0" * 4)
    assert caught.value.message == f'inputs[0] "x": {text}'


def test_bytes_that_belong_to_no_input_are_refused() -> None:
    with pytest.raises(RequestError, match=r"^2 bytes are left over after the binary data"):
        read_value({"inputs": [one_input("INT8", [1])]}, b"abc")


def test_binary_data_of_one_input_is_not_used_for_the_next() -> None:
    first = one_input("INT8", [3], parameters={"binary_data_size": 3})
    second = {"name": "y", "datatype": "INT8", "shape": [2]}
    with pytest.raises(RequestError, match=r'^inputs\[1\] "y": .* 2 bytes, 1 are left in the body'):
        read_value({"inputs": [first, second]}, b"abcd")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "the body must be a JSON object, not an array"),
        ({}, "inputs is missing; it must be an array of objects"),
        ({"inputs": None}, "inputs is missing; it must be an array of objects"),
        ({"inputs": {}}, "inputs is an object; it must be an array of objects"),
        ({"inputs": [1]}, "inputs[0] is an integer; it must be an object"),
        ({"inputs": [{"name": 1}]}, "inputs[0]: name must be a string, not an integer"),
        ({"inputs": [], "outputs": "y"}, "outputs is a string; it must be an array of objects"),
        ({"inputs": [], "outputs": ["y"]}, "outputs[0] is a string; it must be an object"),
        ({"inputs": [], "outputs": [{}]}, "outputs[0] has no name"),
        ({"inputs": [], "id": 7}, "the request: id must be a string, not an integer"),
        (
            {"inputs": [], "parameters": {"binary_data_output": 1}},
            "the request: binary_data_output must be true or false, not an integer",
        ),
        (
            {"inputs": [], "outputs": [{"name": "y", "parameters": {"binary_data": "yes"}}]},
            'outputs[0] "y": binary_data must be true or false, not a string',
        ),
        (
            {"inputs": [], "outputs": [{"name": "y", "parameters": {"shared_memory_region": "r"}}]},
            'outputs[0] "y": shared memory is not supported; send the data itself',
        ),
        (
            {"inputs": [one_input("INT8", [0], data=[])] * 2},
            'inputs[0] and inputs[1] have the same name, "x"',
        ),
        (
            {"inputs": [{"datatype": "INT8", "shape": [0], "data": []}]},
            "inputs[0] has no name",
        ),
    ],
)
def test_a_wrong_request_is_refused(value: object, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_value(value)
    assert caught.value.message == text


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-1e999"])
def test_numbers_that_are_not_json_are_refused(number: str) -> None:
    body = f'{{"inputs":[{{"name":"x","shape":[1],"datatype":"FP64","data":[{number}]}}]}}'
    with pytest.raises(HttpError, match="not valid JSON"):
        read(body.encode())


def test_deep_data_is_refused() -> None:
    data = "[" * 120 + "1" + "]" * 120
    body = f'{{"inputs":[{{"name":"x","shape":[1],"datatype":"FP32","data":{data}}}]}}'
    with pytest.raises(HttpError, match="nested deeper than 100"):
        read(body.encode())


def test_half_a_surrogate_pair_is_refused() -> None:
    value = {"inputs": [one_input("BYTES", [1], data=["\ud800"])]}
    with pytest.raises(RequestError, match=r'inputs\[0\] "x": data\[0\] has half of a surrogate'):
        read_layout(value).fill(memoryview(b""), model="m")


def test_a_parameter_that_is_not_finite_is_refused() -> None:
    value = {"inputs": [], "parameters": {"p": float("inf")}}
    with pytest.raises(RequestError, match=r'^the request: the parameter "p" is not finite'):
        read_layout(value).fill(memoryview(b""), model="m")


def test_integers_of_hundreds_of_digits_are_refused() -> None:
    value = {"inputs": [one_input("FP64", [2], data=[1, 10**400])]}
    with pytest.raises(RequestError, match=r"data\[1\] is out of the range of FP64"):
        read_layout(value).fill(memoryview(b""), model="m")


@pytest.mark.parametrize(
    "header", ["abc", "-1", "0", "99999999999", "1e2", "", " ", "0x10", "٣", "9" * 30, "11", "+1"]
)
def test_an_invalid_length_is_refused(header: str) -> None:
    with pytest.raises(RequestError, match=r"^Inference-Header-Content-Length "):
        split_body(b"0123456789", header)


@given(st.binary(max_size=20), st.one_of(st.none(), st.text(max_size=5), st.integers().map(str)))
def test_a_body_is_split_or_refused(body: bytes, header: str | None) -> None:
    try:
        head, tail = split_body(body, header)
    except RequestError:
        return
    assert head + tail == body
    assert len(head) == (len(body) if header is None else int(header))


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=3),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
MEMBER = st.fixed_dictionaries(
    {},
    optional={
        "name": st.one_of(st.sampled_from(["x", "y", ""]), JSON),
        "datatype": st.one_of(st.sampled_from(Datatype), JSON),
        "shape": st.one_of(
            st.lists(st.sampled_from([-1, 0, 1, 2, 2**31, 2**62, 2**64]), max_size=3), JSON
        ),
        "data": JSON,
        "parameters": st.one_of(
            st.fixed_dictionaries({"binary_data_size": st.one_of(st.integers(-1, 9), JSON)}), JSON
        ),
    },
)


@given(
    st.one_of(
        JSON, st.fixed_dictionaries({"inputs": st.one_of(st.lists(MEMBER, max_size=3), JSON)})
    ),
    st.binary(max_size=12),
)
def test_any_body_becomes_a_request_or_a_request_error(value: object, tail: bytes) -> None:
    try:
        decoded = read_layout(value).fill(memoryview(tail), model="m")
    except RequestError as refusal:
        text = refusal.message
    else:
        assert isinstance(value, dict)
        assert [list(tensor.shape) for tensor in decoded.inputs] == [
            member["shape"] for member in value["inputs"]
        ]
        return
    assert len(text) < 1000
