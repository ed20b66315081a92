"""Branches of a network that have the same form, computed as one with more channels.

A small convolution takes a processor as long to begin as to compute, so three of them are slower
than one of three groups. The sums are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from openvino import opset13 as ov

from calculators.vision.inference.constant_values import constant_value, ints

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
    """The operation's name and the output's index, unique in a network."""
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
        """The operations of the form of ``op`` that take a value in this place, in order."""
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
        """The value of one branch."""
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
    """Zeros behind the channels of each branch."""
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
