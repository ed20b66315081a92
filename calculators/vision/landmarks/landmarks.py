"""`Landmarks`: a list of landmarks in a packet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from calculators.images.image.packet_types import message_type
from graph_runtime import CalculatorContract

Floats = npt.NDArray[np.float32]

#: Columns of `Landmarks.values`.
X, Y, Z, VISIBILITY, PRESENCE = range(5)

_NORMALIZED: Final = "NormalizedLandmarkList"
_METRIC: Final = "LandmarkList"


class Landmark(NamedTuple):
    """One landmark, as an element of a ``mediapipe.NormalizedLandmark`` list is read.

    ``visibility`` and ``presence`` are 0 where the list has none.
    """

    x: float
    y: float
    z: float
    visibility: float = 0.0
    presence: float = 0.0


@final
# An array and not a message: 468 landmarks take 0.5 ms to write as protobuf and 0.26 to read, and
# pass ten nodes per frame (decision 0063).
class Landmarks:
    """A read-only list of landmarks, an array inside and a protobuf message where one is needed.

    It stands for ``mediapipe.NormalizedLandmarkList`` and ``mediapipe.LandmarkList``: a message of
    468 landmarks takes half a millisecond to write, and a graph passes such lists through ten nodes
    per frame.

    Attributes:
        values: (n, 5) float32: x, y, z, visibility, presence. Normalized x and y are fractions of
            the image's width and height, z of the width; others are meters or pixels.
        has_visibility, has_presence: False where the message would not have the field; the column
            is then 0.
        is_normalized: which of the two messages it stands for.
    """

    __slots__ = ("has_presence", "has_visibility", "is_normalized", "values")

    #: A port that takes one takes the messages too (`graph_runtime.authoring.packet_type`).
    stands_for: ClassVar[tuple[type, ...]] = (message_type(_NORMALIZED), message_type(_METRIC))

    def __init__(
        self,
        values: Floats,
        *,
        is_normalized: bool = True,
        has_visibility: bool = False,
        has_presence: bool = False,
    ) -> None:
        """The caller must not write to ``values`` afterwards."""
        if values.ndim != 2 or values.shape[1] != 5 or values.dtype != np.float32:
            raise ValueError(
                f"landmarks are (n, 5) of float32, not {values.shape} of {values.dtype}"
            )
        self.values = values
        self.is_normalized = is_normalized
        self.has_visibility = has_visibility
        self.has_presence = has_presence

    @classmethod
    def of_message(cls, message: Any) -> Landmarks:
        """Read a ``mediapipe.NormalizedLandmarkList`` or ``mediapipe.LandmarkList``."""
        items = message.landmark
        rows = [(each.x, each.y, each.z, each.visibility, each.presence) for each in items]
        return cls(
            np.array(rows, np.float32).reshape(-1, 5),
            is_normalized=message.DESCRIPTOR.name == _NORMALIZED,
            has_visibility=any(each.HasField("visibility") for each in items),
            has_presence=any(each.HasField("presence") for each in items),
        )

    def to_message(self) -> Any:
        """Return the protobuf message that this stands for."""
        columns = [X, Y, Z]
        columns += [VISIBILITY] if self.has_visibility else []
        columns += [PRESENCE] if self.has_presence else []
        # The wire form: every landmark is the same bytes around its numbers.
        fields = [("tag", "u1"), ("length", "u1")]
        for column in columns:
            fields += [(f"tag{column}", "u1"), (f"value{column}", "<f4")]
        wire = np.zeros(len(self), np.dtype(fields))
        wire["tag"], wire["length"] = 0x0A, 5 * len(columns)
        for column in columns:
            wire[f"tag{column}"] = (column + 1) << 3 | 5
            wire[f"value{column}"] = self.values[:, column]
        return message_type(_NORMALIZED if self.is_normalized else _METRIC).FromString(
            wire.tobytes()
        )

    def with_values(self, values: Floats) -> Landmarks:
        """Return landmarks of the same kind with other numbers."""
        return Landmarks(
            values,
            is_normalized=self.is_normalized,
            has_visibility=self.has_visibility,
            has_presence=self.has_presence,
        )

    def with_points(self, points: npt.NDArray[Any]) -> Landmarks:
        """Return landmarks with other x, y (and z): ``points`` is (n, 2) or (n, 3)."""
        values = self.values.copy()
        values[:, : points.shape[1]] = points
        return self.with_values(values)

    def selected(self, ranges: Sequence[tuple[int, int]]) -> Landmarks:
        """Return the landmarks of these ranges, each begin <= place < end, one after the other."""
        parts = [self.values[begin:end] for begin, end in ranges]
        values = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return self.with_values(values)

    @classmethod
    def joined(cls, lists: Sequence[Landmarks]) -> Landmarks:
        """Return all landmarks of several lists, which has a field if one of them has it."""
        return cls(
            np.concatenate([each.values for each in lists]),
            is_normalized=lists[0].is_normalized,
            has_visibility=any(each.has_visibility for each in lists),
            has_presence=any(each.has_presence for each in lists),
        )

    @property
    def landmark(self) -> list[Landmark]:
        """The landmarks one by one, as the field of the message is read."""
        return [Landmark(*row) for row in self.values.tolist()]

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Landmarks):
            return NotImplemented
        return (
            self.is_normalized == other.is_normalized
            and self.has_visibility == other.has_visibility
            and self.has_presence == other.has_presence
            and np.array_equal(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment] # as of an array

    def __repr__(self) -> str:
        kind = "normalized " if self.is_normalized else ""
        return f"<Landmarks {len(self)} {kind}landmarks>"


def landmarks_of(value: Any) -> Landmarks:
    """Return a packet's landmarks, be they an array already or a message."""
    return value if type(value) is Landmarks else Landmarks.of_message(value)


def landmarks(points: Iterable[Sequence[float]], *, is_normalized: bool = True) -> Landmarks:
    """Make landmarks of (x, y, z), with visibility and presence if there are more numbers."""
    rows = [tuple(point) for point in points]
    count = max((len(row) for row in rows), default=3)
    values = np.zeros((len(rows), 5), np.float32)
    if rows:
        values[:, :count] = rows
    return Landmarks(
        values, is_normalized=is_normalized, has_visibility=count > 3, has_presence=count > 4
    )


#: The tags of normalized landmarks and of others.
NORMALIZED, METRIC = "NORM_LANDMARKS", "LANDMARKS"


def take_landmarks(packet_type: Any) -> Any:
    """Let a port take `Landmarks`, and the messages that they stand for."""
    return packet_type.set_one_of(
        Landmarks, message_type("NormalizedLandmarkList"), message_type("LandmarkList")
    )


def take_one_of(contract: CalculatorContract, first: str, second: str) -> str:
    """Declare an input of landmarks under exactly one of two tags; return the tag."""
    has_first = contract.inputs.has_tag(first)
    contract.require(
        has_first is not contract.inputs.has_tag(second),
        f"exactly one of the input streams {first} and {second} is needed",
    )
    for tag in (first, second):
        take_landmarks(contract.inputs[tag]).optional()
    return first if has_first else second
