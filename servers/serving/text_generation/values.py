"""Conversion of tensors and parameters to the JSON values of a completion request."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import CustomTensor, Datatype, Tensor
from calculators.tensors.inference.place import quoted, shown_shape
from servers.serving.text_generation.inputs import Input, Kind

_LISTS = (Kind.TEXTS, Kind.INTEGERS)
_WORDS = {"true": True, "false": False}
_LONGEST_NUMBER = 40


def of_tensor(expected: Input, tensor: Tensor | CustomTensor, place: str) -> Any:
    """Return the value of a tensor: one element of any shape, or all elements as a list.

    Raises:
        RequestError: the datatype is another one, there are several elements for a single value,
            or text is not UTF-8.
    """
    if isinstance(tensor, CustomTensor):
        raise RequestError(tensor.defect or f"{place}: {_wanted(expected)} is needed", param=place)
    if not _fits(expected.kind, tensor.datatype):
        raise RequestError(
            f"{place}: {_wanted(expected)} is needed, not {tensor.datatype}", param=place
        )
    elements = tensor.data.reshape(-1)
    if expected.kind not in _LISTS:
        if elements.size != 1:
            raise RequestError(
                f"{place}: one element is needed; the shape is {shown_shape(tensor.shape)}",
                param=place,
            )
        return _plain(expected.kind, elements[0], place)
    values = [_plain(expected.kind, element, place) for element in elements]
    # Not every client can omit a tensor, so an empty string stands for no value.
    return [value for value in values if value != ""]


def of_json(expected: Input, value: Any, place: str) -> Any:
    """Return a JSON value. Text is parsed to the type of the input, as in vLLM's backend.

    Other wrong types are passed on, because the completion request is checked later.

    Raises:
        RequestError: the text has no such value.
    """
    kind = expected.kind
    if isinstance(value, str):
        if kind in (Kind.TEXT, Kind.TEXTS):
            return value if kind is Kind.TEXT or value else []
        return _read(kind, value, place)
    if kind is Kind.INTEGERS and isinstance(value, int) and not isinstance(value, bool):
        return [value]
    if kind is Kind.FLAG and not isinstance(value, bool):
        raise RequestError(f"{place}: true or false is needed", param=place)
    return value


def _read(kind: Kind, text: str, place: str) -> Any:
    short = text.strip()
    if kind is Kind.FLAG and short.lower() in _WORDS:
        return _WORDS[short.lower()]
    if len(short) <= _LONGEST_NUMBER:
        with contextlib.suppress(ValueError):
            if kind is Kind.INTEGER:
                return int(short)
            if kind is Kind.INTEGERS:
                return [int(short)]
            if kind is Kind.NUMBER and math.isfinite(float(short)):
                return float(short)
    what = {Kind.FLAG: "true or false", Kind.NUMBER: "a finite number"}.get(kind, "an integer")
    raise RequestError(f"{place}: {what} is needed, not {quoted(text)}", param=place)


def _fits(kind: Kind, datatype: Datatype) -> bool:
    of = datatype.dtype.kind
    match kind:
        case Kind.TEXT | Kind.TEXTS:
            return datatype is Datatype.BYTES
        case Kind.FLAG:
            return datatype is Datatype.BOOL
        case Kind.INTEGER | Kind.INTEGERS:
            return of in "iu" and datatype is not Datatype.BF16
        case Kind.NUMBER:
            return of in "iuf" and datatype is not Datatype.BF16


def _wanted(expected: Input) -> str:
    return f"a tensor of {expected.datatype}"


def _plain(kind: Kind, element: Any, place: str) -> Any:
    match kind:
        case Kind.TEXT | Kind.TEXTS:
            try:
                return bytes(element).decode()
            except UnicodeDecodeError:
                raise RequestError(f"{place}: the text is not UTF-8", param=place) from None
        case Kind.FLAG:
            return bool(element)
        case Kind.INTEGER | Kind.INTEGERS:
            return int(element)
        case Kind.NUMBER:
            # The shortest decimal: 0.95 as it was sent, not 0.949999988 as in 32 bits.
            value = float(str(element))
            if not math.isfinite(value):
                raise RequestError(f"{place}: a finite number is needed", param=place)
            return value
