"""Conversion of packet values to and from JSON. `graphrt run --help` describes the form."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NoReturn

import msgspec

from calculators.kit.requests.fields import whole
from graph_runtime import Packet, Timestamp
from graph_runtime import timestamp as ts
from graph_runtime.errors import did_you_mean
from protos.pool import class_of, find_message, pool

_PREFIX: Final = "ndarray<"
_ELEMENT_TYPES: Final = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)


def is_array(kind: str) -> bool:
    return kind.startswith(_PREFIX) and kind.endswith(">")


def decode_array(kind: str, value: Any) -> Any:
    """Return a `numpy.ndarray` of the element type in ``kind`` and the shape of the nested lists.

    Raises:
        ValueError: the element type is unknown, the lists have different lengths, or an element
            does not fit the type.
    """
    element_type = kind[len(_PREFIX) : -1]
    if element_type not in _ELEMENT_TYPES:
        raise ValueError(
            f'"{element_type}" is not an element type: one of {", ".join(_ELEMENT_TYPES)}'
        )
    import numpy as np  # here: the import is slow, and most graphs have no arrays

    try:
        given = np.array(value)
    except ValueError:
        raise ValueError(f"{kind} needs lists of the same length in each other") from None
    dtype = np.dtype(element_type)
    fits = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}[dtype.kind]
    with np.errstate(over="ignore"):
        made = given.astype(dtype) if given.dtype.kind in fits else np.zeros(given.shape, dtype)
    is_exact = dtype.kind == "f" or bool((made == given).all())
    if given.size and not (given.dtype.kind in fits and is_exact):
        raise ValueError(f"{kind} needs values of {element_type} only, in lists")
    return made


_TIMES = {name: value for value, name in ts.SPECIAL_NAMES.items()}
_FLOAT_NAMES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
#: The depth of nested values; deeper ones are written as their repr.
_MAX_DEPTH = 50
_MAX_REPR = 1000
_MAX_BITS = 10_000


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: the text is not JSON. Python's ``NaN`` and ``Infinity`` are refused.
    """
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f'{name} is not JSON; write {{"type": "float", "value": "{name}"}}')


# Times --------------------------------------------------------------------------------------------


def decode_time(value: Any) -> Timestamp:
    """Return the timestamp for an integer or the name of a special timestamp.

    Raises:
        ValueError: the value is neither.
    """
    if isinstance(value, str):
        if value not in _TIMES:
            raise ValueError(
                f'"{value}" is no timestamp: an integer or one of {_list(_TIMES)}'
                f"{did_you_mean(value, _TIMES)}"
            )
        return Timestamp.of(_TIMES[value])
    value = whole(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(
            f"{json.dumps(value)} is no timestamp: an integer or one of {_list(_TIMES)}"
        )
    return Timestamp(value)


def encode_time(value: int) -> int | str:
    """Return an integer, or the name of a special timestamp."""
    return ts.SPECIAL_NAMES.get(int(value), int(value))


def _list(names: Any) -> str:
    return ", ".join(names)


# In -----------------------------------------------------------------------------------------------


def decode_value(value: Any) -> Any:
    """Return a packet's value for parsed JSON: a T for ``{"type": T, "value": V}``, else as it is.

    Raises:
        ValueError: the type is unknown, or the value does not fit it.
    """
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"type", "value"} and isinstance(value["type"], str):
        return _typed(value["type"].removeprefix("std::"), value["value"])
    return {key: decode_value(item) for key, item in value.items()}


def _typed(kind: str, value: Any) -> Any:
    if kind.startswith("vector<") and kind.endswith(">"):
        element = kind[len("vector<") : -1]
        return [_typed(element, item) for item in _need(list, kind, value)]
    if is_array(kind):
        return decode_array(kind, value)
    decode = _TYPES.get(kind)
    if decode is not None:
        return decode(kind, value)
    message = find_message(kind)
    if message is not None:
        from google.protobuf import json_format

        try:
            return json_format.ParseDict(value, class_of(message)(), descriptor_pool=pool())
        except json_format.ParseError as error:
            raise ValueError(f"no {kind}: {error}") from None
    raise ValueError(
        f'"{kind}" is not a known type: one of {_list(_TYPES)}, vector<...>, ndarray<...>, or a '
        f"message type"
        f"{did_you_mean(kind, _TYPES)}"
    )


def _need(wanted: type, kind: str, value: Any) -> Any:
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        names = {int: "a JSON integer", bool: "true or false", str: "a string"}
        what = names.get(wanted, f"a JSON {'array' if wanted is list else 'object'}")
        raise ValueError(f"{kind} needs {what}, not {json.dumps(value)[:80]}")
    return value


def _integer(kind: str, value: Any) -> int:
    number: int = _need(int, kind, whole(value))
    bits = 64 if kind.endswith("64") else 32
    low, high = (0, 2**bits) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if kind != "int" and not low <= number < high:
        raise ValueError(f"{number} is no {kind}: it must lie in {low} .. {high - 1}")
    return number


def _float(kind: str, value: Any) -> float:
    if isinstance(value, str) and value in _FLOAT_NAMES:
        return _FLOAT_NAMES[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{kind} needs a number or one of {_list(_FLOAT_NAMES)}, not {value!r}")
    return float(value)


def _bytes(kind: str, value: Any) -> bytes:
    try:
        return base64.b64decode(_need(str, kind, value), validate=True)
    except binascii.Error as error:
        raise ValueError(f"bytes are written in base64: {error}") from None


def _items(kind: str, value: Any) -> list[Any]:
    return [decode_value(item) for item in _need(list, kind, value)]


def _map(kind: str, value: Any) -> dict[Any, Any]:
    pairs = _items(kind, value)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError("map needs [key, value] pairs")
    return dict(pairs)


def _dict(kind: str, value: Any) -> dict[str, Any]:
    return {key: decode_value(item) for key, item in _need(dict, kind, value).items()}


_TYPES: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("int", "int32", "int64", "uint32", "uint64"), _integer),
    **dict.fromkeys(("float", "double"), _float),
    "bool": lambda kind, value: _need(bool, kind, value),
    "string": lambda kind, value: _need(str, kind, value),
    "bytes": _bytes,
    "Timestamp": lambda kind, value: decode_time(value),
    "pair": lambda kind, value: tuple(_items(kind, value)),
    "tuple": lambda kind, value: tuple(_items(kind, value)),
    "set": lambda kind, value: set(_items(kind, value)),
    "map": _map,
    "dict": _dict,
}


# Out ----------------------------------------------------------------------------------------------


def encode_value(value: Any, depth: int = 0) -> Any:
    """Return an object for ``json.dumps`` that stands for a packet's value. Never raises."""
    try:
        return _encode(value, depth)
    except Exception:
        # A value whose own code fails must not end the run.
        return _unknown(value)


def _encode(value: Any, depth: int) -> Any:
    if isinstance(value, Enum):
        return encode_value(value.value, depth + 1)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Timestamp):
        return encode_time(value)
    if isinstance(value, int):
        # Python refuses to write integers of thousands of digits.
        return int(value) if value.bit_length() <= _MAX_BITS else _unknown(hex(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _float_name(value)
    if depth > _MAX_DEPTH:
        return _unknown(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {"type": "bytes", "value": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, list | tuple):
        return [encode_value(item, depth + 1) for item in value]
    if isinstance(value, Mapping):
        return _encode_mapping(value, depth)
    if isinstance(value, set | frozenset):
        items = [encode_value(item, depth + 1) for item in value]
        return {"type": "set", "value": sorted(items, key=json.dumps)}
    if isinstance(value, Packet):
        return None if value.is_empty() else encode_value(value.value, depth + 1)
    if isinstance(value, msgspec.Struct):
        return {
            name: encode_value(getattr(value, name), depth + 1) for name in value.__struct_fields__
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: encode_value(getattr(value, field.name), depth + 1)
            for field in dataclasses.fields(value)
        }
    return _encode_foreign(value, depth)


def _encode_mapping(value: Mapping[Any, Any], depth: int) -> Any:
    if not all(isinstance(key, str) for key in value):
        pairs = [
            [encode_value(key, depth + 1), encode_value(item, depth + 1)]
            for key, item in value.items()
        ]
        return {"type": "map", "value": pairs}
    encoded = {str(key): encode_value(item, depth + 1) for key, item in value.items()}
    # A dict that looks like this notation is marked, so that it can be read back.
    return {"type": "dict", "value": encoded} if encoded.keys() == {"type", "value"} else encoded


def _encode_foreign(value: Any, depth: int) -> Any:
    from google.protobuf import json_format
    from google.protobuf.message import Message

    to_message = getattr(value, "to_message", None)
    if to_message is not None:  # an object that stands for a message, such as landmarks
        value = to_message()
    if isinstance(value, Message):
        return json_format.MessageToDict(
            value, preserving_proto_field_name=True, descriptor_pool=pool()
        )
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # NumPy and those like it
        return encode_value(value.tolist(), depth + 1)
    return _unknown(value)


def _float_name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _unknown(value: object) -> dict[str, str]:
    kind = type(value)
    try:
        shown = repr(value)
    except Exception:
        shown = "<no repr>"
    name = kind.__qualname__
    full = name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
    return {"type": full, "repr": shown if len(shown) <= _MAX_REPR else shown[:_MAX_REPR] + "..."}
