"""The operations by which a model of attention cuts small maps out of a large one.

Such a model finds landmarks, looks at the regions around some of them more closely, and finds these
landmarks better. `LandmarksToMatrix` makes the matrix from a small map to the large one, and
`SampleBilinear` samples the map. Both stand in a network only until `replace_attention` has made
OpenVINO's operations of them: for all regions together, and what follows them as well.

The branches that follow have the same form, and `join_branches` computes them as one with more
channels: a small convolution takes a processor as long to begin as to compute, so three of them are
slower than one of three groups. The sums are the same.

Source: MediaPipe ``util/tflite/operations``, as formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import openvino
from openvino import opset13 as ov

from calculators.vision.inference.constant_values import constant_value, floats, ints

Array = npt.NDArray[Any]
Key = tuple[str, int]


@dataclass(frozen=True)
class _Joint:
    """Values of equal shapes, one per branch, side by side along an axis of one value."""

    value: Any
    axis: int
    members: Sequence[Any]

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        return tuple(map(key_of, self.members))


@dataclass(frozen=True)
class _Twins:
    """Operations of the same form, one per branch.

    Attributes:
        inputs: joints, or the constants of all branches.
        axis: along which the joints have the branches.
    """

    ops: Sequence[Any]
    inputs: Sequence[_Joint | list[Array]]
    axis: int


def join_branches(network: Any, joined: Any, axis: int, heads: Sequence[Any]) -> None:
    """Compute what follows ``heads`` as one, as far as it has the same form, in place.

    A branch that forks into parts of the same form counts as several from there.

    Args:
        joined: the values of ``heads``, side by side along ``axis``.
        heads: one output per branch, of equal shapes; none depends on another.
    """
    _Joining(_Joint(joined, axis, heads)).run(network.get_ordered_ops())


def key_of(output: Any) -> Key:
    """Return the operation's name and the output's index, unique in a network."""
    return output.get_node().get_name(), output.get_index()


def form_of(op: Any) -> tuple[str, str, str]:
    """Type, attributes and inputs' shapes: equal for operations that differ in values only."""
    shapes = [str(value.get_partial_shape()) for value in op.input_values()]
    return op.get_type_name(), str(sorted(op.get_attributes().items())), str(shapes)


class _Joining:
    def __init__(self, head: _Joint) -> None:
        self._joints: dict[tuple[Key, ...], _Joint] = {}
        #: By their first member.
        self._of_first: dict[Key, list[_Joint]] = {}
        self._parts: dict[tuple[Key, ...], Any] = {}
        #: Names of operations that a joint one stands for.
        self._replaced: set[str] = set()
        self._order: dict[str, int] = {}
        self._add(head)

    def run(self, ops: Sequence[Any]) -> None:
        self._order = {op.get_name(): place for place, op in enumerate(ops)}
        for op in ops:
            if op.get_name() not in self._replaced:
                self._join(op)
        for joint in list(self._joints.values()):
            for place, member in enumerate(joint.members):
                for target in member.get_target_inputs():
                    if target.get_node().get_name() not in self._replaced:
                        target.replace_source_output(self._part(joint, place))

    def _add(self, joint: _Joint) -> None:
        self._joints[joint.keys] = joint
        self._of_first.setdefault(joint.keys[0], []).append(joint)
        for member in joint.members:
            _share_equal_transposes(member)

    def _join(self, op: Any) -> None:
        """Replace an operation of the first branch and its twins, if all branches have one."""
        join = _JOINS.get(op.get_type_name())
        twins = None if join is None else self._twins(op)
        if join is None or twins is None:
            return
        found = join(twins)
        if found is not None:
            self._replaced.update(each.get_name() for each in twins.ops)
            self._add(_Joint(*found, [each.output(0) for each in twins.ops]))

    def _twins(self, op: Any) -> _Twins | None:
        read = [
            (joint, place, [self._readers(member, place, op) for member in joint.members])
            for place, value in enumerate(op.input_values())
            for joint in self._of_first.get(key_of(value), ())
        ]
        # Behind a fork, the value that has all branches.
        read.sort(key=lambda each: -len(each[0].members))
        for joint, _, readers in read:
            if all(len(each) == 1 for each in readers):
                return self._with_inputs([each[0] for each in readers], joint.axis)
        for joint, place, readers in read:
            twins = self._forked(joint, place, readers)
            if twins is not None:
                return twins
        return None

    def _readers(self, value: Any, place: int, op: Any) -> list[Any]:
        """Return the operations of the form of ``op`` that take a value in this place, in order."""
        form = form_of(op)
        found = [
            target.get_node()
            for target in value.get_target_inputs()
            if target.get_index() == place and form_of(target.get_node()) == form
        ]
        return sorted(found, key=lambda each: self._order.get(each.get_name(), -1))

    def _with_inputs(self, ops: Sequence[Any], axis: int) -> _Twins | None:
        inputs: list[_Joint | list[Array]] = []
        for place in range(ops[0].get_input_size()):
            own = [each.input_value(place) for each in ops]
            joint = self._joints.get(tuple(map(key_of, own)))
            if joint is not None and joint.axis == axis:
                inputs.append(joint)
                continue
            constants = [found for found in map(constant_value, own) if found is not None]
            if len(constants) < len(ops):
                return None
            inputs.append(constants)
        return _Twins(ops, inputs, axis)

    def _forked(self, joint: _Joint, place: int, readers: Sequence[Sequence[Any]]) -> _Twins | None:
        """Twins where branches fork: each reader gets the value of its branch for itself."""
        if not all(readers) or len(set(joint.keys)) < len(joint.keys):
            return None
        ops = [reader for each in readers for reader in each]
        others = [
            op.input_value(other)
            for op in ops
            for other in range(op.get_input_size())
            if other != place
        ]
        if any(constant_value(other) is None for other in others):
            return None
        slots = [slot for slot, each in enumerate(readers) for _ in each]
        if tuple(joint.keys[slot] for slot in slots) not in self._joints:
            value = ov.concat([self._part(joint, slot) for slot in slots], joint.axis).output(0)
            self._add(_Joint(value, joint.axis, [joint.members[slot] for slot in slots]))
        return self._with_inputs(ops, joint.axis)

    def _part(self, joint: _Joint, place: int) -> Any:
        """Return the value of one branch."""
        parts = self._parts.get(joint.keys)
        if parts is None:
            count = len(joint.members)
            parts = self._parts[joint.keys] = ov.split(joint.value, ints(joint.axis), count)
        return parts.output(place)


def _share_equal_transposes(value: Any) -> None:
    """Let one of several operations that reorder a value in the same way do it for all."""
    known: dict[tuple[int, ...], Any] = {}
    for target in value.get_target_inputs():
        reader = target.get_node()
        if reader.get_type_name() != "Transpose":
            continue
        order = constant_value(reader.input_value(1))
        if order is not None:
            first = known.setdefault(tuple(order.tolist()), reader)
            if key_of(first.output(0)) != key_of(reader.output(0)):
                reader.output(0).replace(first.output(0))


def _convolution(twins: _Twins) -> tuple[Any, int] | None:
    source, weights = twins.inputs
    if not isinstance(source, _Joint) or isinstance(weights, _Joint) or twins.axis != 1:
        return None
    attributes = twins.ops[0].get_attributes()
    is_grouped = twins.ops[0].get_type_name() == "GroupConvolution"
    found = ov.group_convolution(
        source.value,
        # (groups, out, in, height, width)
        ov.constant(np.concatenate(weights) if is_grouped else np.stack(weights)),
        attributes["strides"],
        attributes["pads_begin"],
        attributes["pads_end"],
        attributes["dilations"],
        attributes["auto_pad"],
    )
    return found.output(0), twins.axis


def _elementwise(twins: _Twins) -> tuple[Any, int] | None:
    make = {"Add": ov.add, "PRelu": ov.prelu}[twins.ops[0].get_type_name()]
    shape = twins.ops[0].get_output_shape(0)
    values = []
    for each in twins.inputs:
        if isinstance(each, _Joint):
            values.append(each.value)
        elif each[0].ndim == len(shape) and each[0].shape[twins.axis] == shape[twins.axis]:
            values.append(ov.constant(np.concatenate(each, axis=twins.axis)))
        else:
            return None
    return make(*values).output(0), twins.axis


def _max_pool(twins: _Twins) -> tuple[Any, int] | None:
    (source,) = twins.inputs
    if not isinstance(source, _Joint) or twins.axis != 1:
        return None
    attributes = twins.ops[0].get_attributes()
    found = ov.max_pool(
        source.value,
        attributes["strides"],
        attributes["dilations"],
        attributes["pads_begin"],
        attributes["pads_end"],
        attributes["kernel"],
        attributes["rounding_type"],
        attributes["auto_pad"],
    )
    return found.output(0), twins.axis


def _pad(twins: _Twins) -> tuple[Any, int] | None:
    """Zeros after the channels of each branch."""
    source, *others = twins.inputs
    op, axis = twins.ops[0], twins.axis
    before, _, *filling = [each for each in others if not isinstance(each, _Joint)]
    own, wanted = np.array(op.get_input_shape(0)), np.array(op.get_output_shape(0))
    if (
        not isinstance(source, _Joint)
        or op.get_attributes()["pad_mode"] != "constant"
        or any(value.any() for each in (before, *filling) for value in each)
        or np.flatnonzero(own != wanted).tolist() != [axis]
    ):
        return None
    zeros = np.where(own != wanted, wanted - own, own)
    more = ov.constant(np.zeros(zeros, np.float32))
    parts = ov.split(source.value, ints(axis), len(twins.ops)).outputs()
    return ov.concat([each for part in parts for each in (part, more)], axis).output(0), axis


def _transpose(twins: _Twins) -> tuple[Any, int] | None:
    source, order = twins.inputs
    if not isinstance(source, _Joint) or isinstance(order, _Joint):
        return None
    axes = order[0].tolist()
    return ov.transpose(source.value, ints(axes)).output(0), axes.index(twins.axis)


#: Makes the joint value of twins and its axis; None where they cannot be joined.
_JOINS: Final[dict[str, Callable[[_Twins], tuple[Any, int] | None]]] = {
    "Add": _elementwise,
    "Convolution": _convolution,
    "GroupConvolution": _convolution,
    "MaxPool": _max_pool,
    "PRelu": _elementwise,
    "Pad": _pad,
    "Transpose": _transpose,
}


#: The options of one `LandmarksToMatrix`.
Options = Mapping[str, Any]

#: Operations between two values up to which they are compared.
_DEPTH = 4


class LandmarksToMatrix(openvino.Op):  # type: ignore[misc]
    """A matrix (1, 4, 4) of landmarks (1, n, 3).

    It maps pixels of a small map to pixels of the large one: it turns by the angle between two
    landmarks, and scales to the box around a subset of all.
    """

    def __init__(self, landmarks: Any, options: Options) -> None:
        super().__init__(self)
        self.options = options
        self.set_arguments([landmarks])
        self.constructor_validate_and_infer_types()

    def validate_and_infer_types(self) -> None:
        self.set_output_type(0, openvino.Type.f32, openvino.PartialShape([1, 4, 4]))


class SampleBilinear(openvino.Op):  # type: ignore[misc]
    """A map (1, height, width, c) of the points of a map (1, h, w, c) under a matrix (1, 4, 4).

    A point outside the centres of the map's border pixels is 0.
    """

    def __init__(self, source: Any, matrix: Any, height: int, width: int) -> None:
        super().__init__(self)
        self.size = (height, width)
        self.set_arguments([source, matrix])
        self.constructor_validate_and_infer_types()

    def validate_and_infer_types(self) -> None:
        channels = self.get_input_partial_shape(0)[3]
        shape = openvino.PartialShape([1, *self.size, channels])
        self.set_output_type(0, openvino.Type.f32, shape)


def replace_attention(network: Any) -> None:
    """Make OpenVINO's operations of `LandmarksToMatrix` and `SampleBilinear`, in place."""
    for samples in _of_one_map(network):
        _replace_samples(network, samples)
    for op in network.get_ordered_ops():
        if isinstance(op, LandmarksToMatrix):
            op.output(0).replace(_matrices(op.input_value(0), [op.options]))


def _of_one_map(network: Any) -> list[list[SampleBilinear]]:
    """Return the samples, those together that can be taken at once."""
    found: list[list[SampleBilinear]] = []
    for op in network.get_ordered_ops():
        if isinstance(op, SampleBilinear):
            alike = [each for each in found if _are_of_one_map(each[0], op)]
            if alike:
                alike[0].append(op)
            else:
                found.append([op])
    return found


def _are_of_one_map(a: SampleBilinear, b: SampleBilinear) -> bool:
    makers = [op.input_value(1).get_node() for op in (a, b)]
    return (
        a.size == b.size
        and _are_same(a.input_value(0), b.input_value(0))
        and all(isinstance(maker, LandmarksToMatrix) for maker in makers)
        # So none of them depends on what another finds.
        and _are_same(makers[0].input_value(0), makers[1].input_value(0))
    )


def _are_same(a: Any, b: Any, depth: int = _DEPTH) -> bool:
    """Return True if two values are surely equal."""
    if key_of(a) == key_of(b):
        return True
    constants = constant_value(a), constant_value(b)
    if constants[0] is not None and constants[1] is not None:
        return np.array_equal(constants[0], constants[1])
    ops = a.get_node(), b.get_node()
    return (
        depth > 0
        and not any(isinstance(op, LandmarksToMatrix | SampleBilinear) for op in ops)
        and a.get_index() == b.get_index()
        and form_of(ops[0]) == form_of(ops[1])
        and ops[0].get_input_size() > 0
        and all(
            _are_same(one, other, depth - 1)
            for one, other in zip(ops[0].input_values(), ops[1].input_values(), strict=True)
        )
    )


def _replace_samples(network: Any, samples: Sequence[SampleBilinear]) -> None:
    source, matrix = samples[0].input_values()
    height, width = samples[0].size
    if len(samples) == 1:
        samples[0].output(0).replace(_sampled(source, matrix, 1, height, width))
        return
    makers = [op.input_value(1).get_node() for op in samples]
    matrices = _matrices(makers[0].input_value(0), [maker.options for maker in makers])
    joined = _sampled(source, matrices, len(samples), height, width)
    each = ov.split(matrices, ints(0), len(samples))
    for place, maker in enumerate(makers):
        maker.output(0).replace(each.output(place))
    join_branches(network, joined, 3, [op.output(0) for op in samples])


def _whole(value: int) -> Any:
    return ov.constant(np.asarray(value, np.int32))


def _matrices(landmarks: Any, options: Sequence[Options]) -> Any:
    """Return the matrices (k, 4, 4) of k `LandmarksToMatrix` of the same landmarks."""

    def of_each(value: Callable[[Options], float]) -> Any:
        return floats([[value(each)] for each in options])

    points = ov.squeeze(landmarks, ints([0]))
    ends = [
        ov.gather(points, ints([each[name] for each in options]), ints(0))
        for name in ("right_rotation_idx", "left_rotation_idx")
    ]
    across = ov.subtract(*ends)
    dx, dy = (ov.gather(across, ints([place]), ints(1)) for place in (0, 1))
    # Sine and cosine of target - atan2(dy, dx), without the angle itself.
    length = ov.sqrt(ov.add(ov.multiply(dx, dx), ov.multiply(dy, dy)))
    own_cos, own_sin = ov.divide(dx, length), ov.divide(dy, length)
    target_cos = of_each(lambda each: math.cos(each["target_rotation_radians"]))
    target_sin = of_each(lambda each: math.sin(each["target_rotation_radians"]))
    cos = ov.add(ov.multiply(target_cos, own_cos), ov.multiply(target_sin, own_sin))
    sin = ov.subtract(ov.multiply(target_sin, own_cos), ov.multiply(target_cos, own_sin))

    # A shorter subset has its first landmark several times, which does not change its box.
    subsets = [list(each["subset_idxs"]) for each in options]
    most = max(map(len, subsets))
    filled = [subset + subset[:1] * (most - len(subset)) for subset in subsets]
    chosen = ov.gather(points, ints(filled), ints(0))
    x, y = (ov.gather(chosen, ints(place), ints(2)) for place in (0, 1))
    turned = (
        ov.subtract(ov.multiply(cos, x), ov.multiply(sin, y)),
        ov.add(ov.multiply(sin, x), ov.multiply(cos, y)),
    )
    low = [ov.reduce_min(each, ints([1]), keep_dims=True) for each in turned]
    high = [ov.reduce_max(each, ints([1]), keep_dims=True) for each in turned]
    width, height = (ov.subtract(b, a) for a, b in zip(low, high, strict=True))
    u, v = (ov.multiply(ov.add(a, b), floats(0.5)) for a, b in zip(low, high, strict=True))
    center_x = ov.add(ov.multiply(cos, u), ov.multiply(sin, v))
    center_y = ov.subtract(ov.multiply(cos, v), ov.multiply(sin, u))

    scale_x = ov.multiply(width, of_each(lambda each: each["scale_x"] / each["output_width"]))
    scale_y = ov.multiply(height, of_each(lambda each: each["scale_y"] / each["output_height"]))
    m00, m01 = ov.multiply(cos, scale_x), ov.multiply(sin, scale_y)
    m10, m11 = ov.negative(ov.multiply(sin, scale_x)), ov.multiply(cos, scale_y)
    half_x = of_each(lambda each: each["output_width"] / 2)
    half_y = of_each(lambda each: each["output_height"] / 2)
    m03 = ov.subtract(center_x, ov.add(ov.multiply(m00, half_x), ov.multiply(m01, half_y)))
    m13 = ov.subtract(center_y, ov.add(ov.multiply(m10, half_x), ov.multiply(m11, half_y)))
    count = len(options)
    zero = floats(np.zeros((count, 1)))
    rest = floats(np.tile(np.eye(4)[2:].reshape(1, 8), (count, 1)))
    found = ov.concat([m00, m01, zero, m03, m10, m11, zero, m13, rest], 1)
    return ov.reshape(found, ints([count, 4, 4]), False).output(0)


def _sampled(source: Any, matrices: Any, maps: int, height: int, width: int) -> Any:
    """A map (1, h, w, c) under matrices (k, 4, 4), side by side: (1, height, width, k c).

    The four pixels around a point are gathered as rows of c numbers: OpenVINO's own sampler wants
    each channel for itself, so the whole map would be transposed before it, and each sample after
    it.
    """
    count, all_points = height * width, height * width * maps
    shape = source.get_partial_shape()
    rows, columns, channels = (shape[axis].get_length() for axis in (1, 2, 3))
    last = np.array([columns - 1, rows - 1]).reshape(1, 2, 1, 1)
    y, x = np.mgrid[0:height, 0:width].reshape(2, -1) + 0.5
    centers = np.stack([x, y, np.zeros_like(x), np.ones_like(x)], axis=1)
    # x and y of each point under each matrix, (points, 2, k, 1); and of the pixels beside it.
    by_axis = ov.transpose(ov.gather(matrices, ints([0, 1]), ints(1)), ints([1, 0, 2]))
    flat = ov.reshape(by_axis, ints([2 * maps, 4]), False)
    found = ov.matmul(floats(centers), flat, False, True)
    moved = ov.subtract(ov.reshape(found, ints([count, 2, maps, 1]), False), floats(0.5))
    beside = ov.add(ov.floor(moved), floats([0, 1]))
    inside = ov.logical_and(ov.greater_equal(moved, floats(0)), ov.less_equal(moved, floats(last)))
    shares = ov.subtract(floats(1), ov.abs(ov.subtract(moved, beside)))
    shares = ov.multiply(shares, ov.convert(inside, "f32"))

    def by_point(pairs: Any, axis: int, dims: list[int]) -> Any:
        return ov.reshape(ov.gather(pairs, ints([axis]), ints(1)), ints(dims), False)

    in_rows, in_columns = [all_points, 2, 1], [all_points, 1, 2]
    place = ov.add(
        ov.multiply(by_point(beside, 1, in_rows), floats(columns)),
        by_point(beside, 0, in_columns),
    )
    # As whole numbers, since what is not a number has no place; a pixel outside has no share.
    place = ov.minimum(ov.maximum(ov.convert(place, "i32"), _whole(0)), _whole(rows * columns - 1))
    share = ov.multiply(by_point(shares, 1, in_rows), by_point(shares, 0, in_columns))
    # The pool of one pixel changes nothing. Without it OpenVINO would keep the whole map, for all
    # its readers, in the order that only this one needs.
    pool = ov.max_pool(
        ov.transpose(source, ints([0, 3, 1, 2])), [1, 1], [1, 1], [0, 0], [0, 0], [1, 1]
    )
    pixels = ov.gather(
        ov.reshape(
            ov.transpose(pool.output(0), ints([0, 2, 3, 1])),
            ints([rows * columns, channels]),
            False,
        ),
        ov.reshape(place, ints([all_points, 4]), False),
        ints(0),
    )
    weighed = ov.multiply(pixels, ov.reshape(share, ints([all_points, 4, 1]), False))
    summed = ov.reduce_sum(weighed, ints([1]), False)
    return ov.reshape(summed, ints([1, height, width, maps * channels]), False).output(0)
