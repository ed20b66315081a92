"""`TensorSpec`: name, type and shape of a model's input or output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.tensors.openvino.dimension import Dimension
from graph_runtime import Code, GraphError

#: The NumPy types that hold OpenVINO's element types. Of bf16, which NumPy does not have, an array
#: holds the bits, as for KServe. Strings are left out: OpenVINO 2026.4's access to them from Python
#: reads memory that was never written when all are empty, and divides by zero when there are none.
_DTYPES: Final[dict[str, Any]] = {
    "boolean": np.bool_,
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "bf16": np.uint16,
}

#: The numbers that OpenVINO's CPU plugin can take of types of 64 bits, as it computes in int32 and
#: float32. It wraps other integers around and clips other floats, infinities too, without an error.
NUMBERS_ON_CPU: Final[dict[str, tuple[Any, Any]]] = {
    "i64": (-(2**31), 2**31 - 1),
    "u64": (0, 2**31 - 1),
    "f64": (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max)),
}


class TensorError(GraphError):
    """A tensor does not fit the model; the text names it and what is expected."""

    code = Code.INVALID_ARGUMENT


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output of a model.

    Attributes:
        name: its name in the model; an output without a name has that of its node.
        names: all of its names, including ``name``.
        element_type: OpenVINO's name of the type, such as "f32".
        dtype: type of its arrays, in this machine's byte order; for "bf16" uint16, the bits.
        shape: the allowed lengths per axis; None is any number of axes.
        span: the least and the greatest number that the device can take, if it cannot take all of
            the type; None if it can.
    """

    name: str
    names: frozenset[str]
    element_type: str
    dtype: np.dtype[Any]
    shape: tuple[Dimension, ...] | None
    span: tuple[Any, Any] | None = None

    @classmethod
    def of(cls, port: Any, *, is_on_cpu: bool = False) -> TensorSpec:
        """The spec of an input or output of a compiled model.

        Args:
            is_on_cpu: OpenVINO's CPU plugin gets the numbers of this input.

        Raises:
            GraphError: its element type has no NumPy equivalent.
        """
        names = port.get_names()
        name = port.get_any_name() if names else port.get_node().get_friendly_name()
        element_type = port.get_element_type().get_type_name()
        if element_type not in _DTYPES:
            raise GraphError(
                f'its tensor "{name}" has the element type {element_type}, which no NumPy array '
                f"holds; convert it to one of {', '.join(_DTYPES)} in the model",
                code=Code.UNIMPLEMENTED,
            )
        return cls(
            name,
            frozenset(names) | {name},
            element_type,
            np.dtype(_DTYPES[element_type]),
            _dimensions(port.get_partial_shape()),
            NUMBERS_ON_CPU.get(element_type) if is_on_cpu else None,
        )

    @property
    def shape_text(self) -> str:
        """``[1,?,1..8]``: ``?`` is any length; ``[...]`` any number of axes."""
        if self.shape is None:
            return "[...]"
        return f"[{','.join(map(str, self.shape))}]"

    def check(self, array: npt.NDArray[Any]) -> None:
        """Check that an array fits.

        Raises:
            TensorError: the array has another element type or shape, or numbers beyond `span`.
        """
        if array.dtype != self.dtype:
            bits = " (the bits of bf16)" if self.element_type == "bf16" else ""
            raise TensorError(
                f'tensor "{self.name}": the element type is {array.dtype}, {self.dtype}{bits} is '
                f"expected"
            )
        if self.shape is not None and (
            len(array.shape) != len(self.shape)
            or not all(
                dimension.allows(length)
                for dimension, length in zip(self.shape, array.shape, strict=True)
            )
        ):
            given = ",".join(map(str, array.shape))
            raise TensorError(
                f'tensor "{self.name}": the shape is [{given}], {self.shape_text} is expected'
            )
        refusal = self.refusal_of_numbers(array)
        if refusal:
            raise TensorError(f'tensor "{self.name}": {refusal}')

    def refusal_of_numbers(self, array: npt.NDArray[Any]) -> str:
        """Return why the device cannot take the numbers of an array of this type; "" if it can."""
        if self.span is None or not array.size:
            return ""
        low, high = self.span
        if array.min() >= low and array.max() <= high:
            return ""
        is_beyond = (array < low) | (array > high)
        if not is_beyond.any():  # but NaN, which is the same in float32
            return ""
        place = int(is_beyond.argmax())
        return (
            f"element {place} is {array.flat[place]}, but the CPU computes {self.dtype} with "
            f"numbers from {low} to {high}"
        )


def _dimensions(shape: Any) -> tuple[Dimension, ...] | None:
    if shape.rank.is_dynamic:
        return None
    return tuple(
        Dimension(each.min_length, None if each.max_length == -1 else each.max_length)
        for each in shape
    )
