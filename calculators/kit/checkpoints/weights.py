"""Weights of a model file as nodes of an OpenVINO model: products, rows of an embedding, experts.

A quantized matrix becomes ``Constant - Convert - [Subtract] - Multiply - Reshape``, which
OpenVINO's CPU plug-in does not compute: the product reads the codes themselves (a *FullyConnected*
with decompression; *GatherMatmul* for experts; a compressed *Gather* for rows of an embedding). So
a model takes as many bytes as its constants. Types without offsets have one such form. For those
with offsets (Q4_1, Q5_1, Q2_K, Q4_K, Q5_K) there are three (`OffsetForm`):

*scaled*
    8-bit codes ``k * code + c``, a scale ``scale / k``, and a whole zero point. For each group,
    ``k`` is chosen so that the offset comes nearest to a whole multiple of the step. The codes stay
    exact; offsets are off by 0.004 of a step on average. The plug-in computes such products with
    integers, and rounds their inputs to 8 bits (dynamic quantization): as fast as it gets.
    Large matrices of 4-bit codes keep them, since with few requests the bytes are what takes time.
    Their zero points are whole too, and what that leaves of each offset is written with two digits
    of 4 bits, as further columns (`with_rest`), which are multiplied by the sums of the groups of
    inputs: offsets are off by 0.002 of a step at most. Scales are rounded to float16. Small
    matrices have 8 bits: the nodes that make the sums take as long as their bytes.
*split*
    4-bit codes around 0, and a second, small product that adds what the offsets contribute: the
    sum of the inputs of each group times the group's offset. Nothing is rounded, at half the
    memory, and the inputs are rounded as before; the sums take time with long prompts.
*exact*
    A fractional zero point ``minus / scale``, which makes the plug-in compute in float32.

Several products of the same input are one product of joined rows where their groups are alike: with
one request, the number of nodes is what counts.

All is done for some thousand rows at a time, and large constants lie on the disk
(`WeightScratch`), so that a conversion takes far less memory than the model.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset15 as op

from calculators.kit.checkpoints.gguf import GgufFile, GgufTensor
from calculators.kit.checkpoints.packed import (
    LARGE,
    REST_DIGITS,
    UNPACKED,
    Bytes,
    Floats,
    MatrixForm,
    OffsetForm,
    check_type,
    floats_of,
    formed,
    rest_groups,
    unpack,
)
from graphrt_base.errors import ResourceError

#: Weights that are unpacked at a time.
_SLICE: Final = 1 << 20
#: The smallest array that is kept on the disk.
_SMALLEST: Final = 1 << 16
#: Bytes of arrays that are made until the complete ones leave the memory.
_RELEASED: Final = 32 << 20
_ALIGNMENT: Final = 64
#: The part of the weights from which on groups of 16 decide; see `Weights.input_group`.
_SMALL_GROUPS: Final = 0.1
#: The part of a scale by which rounding to float16 may change it in the form *scaled*.
_SCALE_ERROR: Final = 2.0**-10


class Rows(NamedTuple):
    """Rows of a tensor, as a part of a product.

    Attributes:
        name: of the tensor and its bias, without ``.weight``.
        rows: of the tensor.
        order: which of them, and in which order; None: all.
    """

    name: str
    rows: int
    order: NDArray[np.int64] | None = None


class WeightScratch:
    """Memory for a model's constants: arrays lie one after the other in a file.

    A model refers to its arrays, so a scratch must be kept as long as the model. Arrays that are
    complete leave the process's memory, and come back from the file when they are read.

    Attributes:
        is_dry: the arrays stay as they are, and take no memory: a model is built only to find out
            whether its file has all that it needs, and what it looks like.
        constants: the arrays that became constants, in order, by the names of their nodes.
        halved: for each array that may be in float16, in order, whether it is.
    """

    is_dry = False

    def __init__(self, path: Path | None = None) -> None:
        """``path``: of the file, which must not exist yet; None: the arrays are in memory."""
        self.constants: dict[str, NDArray[Any]] = {}
        self.halved: list[bool] = []
        self._file = None
        if path is not None:
            self._file = path.open("x+b")
            weakref.finalize(self, self._file.close)
        self._size = 0
        self._places: dict[int, int] = {}
        self._unreleased: list[mmap.mmap] = []
        self._kept: list[object] = []

    def empty(self, shape: Sequence[int], dtype: Any) -> NDArray[Any]:
        """Return an array whose numbers are not set.

        Raises:
            OSError: the disk is full.
        """
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if self._file is None or size < _SMALLEST:
            return np.empty(shape, dtype)
        if sum(map(len, self._unreleased)) > _RELEASED:
            self._release()
        length = -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        # A file with holes would kill the process where the disk has no room for them.
        os.posix_fallocate(self._file.fileno(), self._size, length)
        # Shared with the file, so what is released is not lost.
        memory = mmap.mmap(self._file.fileno(), length, offset=self._size)
        found = np.frombuffer(memory, dtype, math.prod(shape)).reshape(shape)
        self._places[found.ctypes.data] = self._size
        self._unreleased.append(memory)
        self._size += length
        return found

    def constant(
        self, array: NDArray[Any], kind: ov.Type | None = None, shape: Sequence[int] = ()
    ) -> ov.Node:
        """Return a constant that refers to an array.

        Args:
            kind: of its numbers, where NumPy has no such type; ``shape`` is then theirs.
        """
        tensor = (
            ov.Tensor(array, shared_memory=True)
            if kind is None
            else ov.Tensor(array, ov.Shape(list(shape)), kind)
        )
        # A tensor does not keep its array alive (openvino 2026.4): wrong numbers, sometimes a
        # crash.
        self._kept.append(tensor)
        node = op.constant(tensor, shared_memory=True)
        self.constants[node.get_friendly_name()] = array
        return node

    def halves(self, array: Floats, limit: float) -> NDArray[np.float16] | None:
        """Return an array in float16; None: that would change a number by more than allowed.

        Args:
            limit: the part of a number, or of the mean of all, by which it may change.
        """
        size = np.abs(array)
        mean = size.mean() if array.size else 0.0
        with np.errstate(over="ignore"):
            halves = array.astype(np.float16)
        self.halved.append(bool((np.abs(halves - array) <= limit * np.maximum(size, mean)).all()))
        if not self.halved[-1]:
            return None
        found = self.empty(array.shape, np.float16)
        found[:] = halves
        return found

    def place(self, array: NDArray[Any]) -> int:
        """Return the place of an array in the file, and write it there unless it is there."""
        assert self._file is not None
        at = array.ctypes.data
        if at not in self._places:
            self._size = -(-self._size // _ALIGNMENT) * _ALIGNMENT
            os.pwrite(self._file.fileno(), array.tobytes(), self._size)
            self._kept.append(array)  # no other array may get its address
            self._places[at] = self._size
            self._size += array.nbytes
        return self._places[at]

    def _release(self) -> None:
        for memory in self._unreleased:
            # Constants leave the memory as they are made: a conversion must not need the memory of
            # the whole model (decision 0086).
            memory.madvise(mmap.MADV_DONTNEED)
        self._unreleased.clear()


class DryScratch(WeightScratch):
    """A scratch whose arrays are never set."""

    is_dry = True

    def __init__(self, halved: Sequence[bool] = ()) -> None:
        """``halved``: of the scratch that has the numbers, if the same model is built in both."""
        super().__init__()
        self._choices = iter(halved)

    def halves(self, array: Floats, limit: float) -> NDArray[np.float16] | None:
        return np.empty(array.shape, np.float16) if next(self._choices, False) else None


class _Stored(NamedTuple):
    """A matrix in a scratch, (rows, groups, columns of a group)."""

    codes: ov.Node
    zero: ov.Node | None
    scale: ov.Node
    correction: ov.Node | None
    has_rest: bool


class Weights:
    """Nodes of a file's tensors.

    Attributes:
        used: the names of tensors that were asked for.
    """

    def __init__(self, file: GgufFile, form: OffsetForm, scratch: WeightScratch) -> None:
        self._file = file
        self._form = form
        self._scratch = scratch
        self._sums: dict[tuple[int, int], tuple[ov.Node, ov.Node]] = {}
        self._extended: dict[tuple[int, int], ov.Node] = {}
        self._blank: dict[tuple[int, int], ov.Node] = {}
        self._embeddings: dict[str, ov.Node] = {}
        self._computed: Counter[int] = Counter()
        self.used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._file.tensors

    @property
    def input_group(self) -> int:
        """Numbers of an input that should be rounded together; 0: it does not matter.

        The plug-in rounds the inputs of products in groups of 32. A matrix with groups of 16
        (Q6_K, Q3_K, Q2_K) is then computed in float32, which takes three to five times as long
        for 8 rows and more. With 16 it is as fast as the others, and these are slower by a
        quarter (``bench/gguf.md``).
        """
        if not self._computed:
            return 0
        return 16 if self._computed[16] > _SMALL_GROUPS * self._computed.total() else 32

    def tensor(self, name: str) -> GgufTensor:
        """Return a tensor.

        Raises:
            ResourceError: the file lacks it, or it is of a type that cannot be computed.
        """
        self.used.add(name)
        tensor = self._file.tensors.get(name)
        if tensor is None:
            raise ResourceError(f'"{self._file.name}" lacks the tensor "{name}"')
        check_type(self._file.name, tensor)
        return tensor

    def floats(self, name: str, length: int | None = None) -> Floats:
        """Return a small tensor in float32.

        Args:
            length: of its last dimension, which is checked.
        """
        tensor = self.tensor(name)
        if length is not None and tensor.shape[-1] != length:
            raise self.wrong_shape(tensor, f"{length} numbers")
        rows = floats_of(tensor.type.name, tensor.rows())
        if rows is None:
            rows = unpack(tensor.type.name, tensor.rows()).floats()
        self._check_finite(tensor, rows)
        return np.array(rows, np.float32).reshape(tensor.shape)

    def _check_finite(self, tensor: GgufTensor, numbers: NDArray[Any]) -> None:
        if not np.isfinite(numbers).all():
            raise ResourceError(
                f'"{self._file.name}": the tensor "{tensor.name}" has numbers that are not finite'
            )

    def wrong_shape(self, tensor: GgufTensor, wanted: str) -> ResourceError:
        """Return the error for a tensor of another shape."""
        return ResourceError(
            f'"{self._file.name}": the tensor "{tensor.name}" has the shape {list(tensor.shape)}, '
            f"and the rest of the file wants {wanted}"
        )

    # Products.

    def product(
        self, x: ov.Output, name: str, shape: tuple[int, int], *, last: bool = False
    ) -> ov.Output:
        """Return ``x`` times a matrix, plus its bias.

        Args:
            shape: that the matrix must have, rows first.
            last: it makes the logits, and must be a single product.
        """
        # A tied output layer: the same nodes as the embedding's, or the constants would be there
        # twice.
        if last and name in self._embeddings:
            self._count(self.tensor(f"{name}.weight"))
            return op.matmul(x, self._embeddings[name], False, True).output(0)
        return self.products(x, [Rows(name, shape[0])], shape[1], last=last)[0]

    def products(
        self, x: ov.Output, parts: Sequence[Rows], width: int, *, last: bool = False
    ) -> list[ov.Output]:
        """Return ``x`` times each of the matrices: one product where their types allow it."""
        tensors = [self.matrix(part.name, (part.rows, width)) for part in parts]
        alike = [self._join_key(part, tensor) for part, tensor in zip(parts, tensors, strict=True)]
        if len(set(alike)) > 1:
            found: list[ov.Output] = []
            start = 0
            for end in range(1, len(parts) + 1):
                if end == len(parts) or alike[end] != alike[start]:
                    found += self.products(x, parts[start:end], width, last=last)
                    start = end
            return found
        y = self._matrix_product(x, tensors, [part.order for part in parts], last)
        if f"{parts[0].name}.bias" in self:
            biases = [self._bias(part) for part in parts]
            y = op.add(y, self.constant(np.concatenate(biases))).output(0)
        if len(parts) == 1:
            return [y]
        counts = [part.rows if part.order is None else len(part.order) for part in parts]
        return list(op.variadic_split(y, whole(-1), whole(counts)).outputs())

    def matrix(self, name: str, shape: tuple[int, ...]) -> GgufTensor:
        """Return a tensor of this shape.

        Raises:
            ResourceError: it is absent, or has another shape.
        """
        tensor = self.tensor(f"{name}.weight")
        if tensor.shape != shape:
            raise self.wrong_shape(tensor, f"the shape {list(shape)}")
        return tensor

    def _join_key(self, part: Rows, tensor: GgufTensor) -> tuple[object, ...]:
        layout = UNPACKED.get(tensor.type.name)
        group = 0 if layout is None else layout.group
        kind = tensor.type.name if layout is None else ""
        return group, kind, f"{part.name}.bias" in self, self._is_scale(f"{part.name}.scale")

    def _bias(self, part: Rows) -> Floats:
        bias = self.floats(f"{part.name}.bias", part.rows).reshape(-1)
        return bias if part.order is None else bias[part.order]

    def _matrix_product(
        self,
        x: ov.Output,
        tensors: Sequence[GgufTensor],
        orders: Sequence[NDArray[np.int64] | None],
        last: bool,
    ) -> ov.Output:
        # The output layer is as wide as the vocabulary: sums for a second product cost more there
        # than float32.
        form = OffsetForm.EXACT if last and self._form is OffsetForm.SPLIT else self._form
        for tensor in tensors:
            self._count(tensor)
        if tensors[0].type.name not in UNPACKED:
            y = op.matmul(x, self._plain(tensors, orders), False, True).output(0)
        else:
            stored = self._store(tensors, orders, form, is_product=not last)
            columns = tensors[0].shape[-1]
            wide = self._with_sums(x, columns, stored) if stored.has_rest else x
            # The rests of offsets are further columns of the same product: a product of their own
            # (split) costs two more nodes each time (decision 0086).
            y = op.matmul(wide, _dequantized(stored), False, True).output(0)
            if stored.correction is not None:
                groups = stored.correction.shape[1]
                sums = self._group_sums(x, groups, columns // groups)
                y = op.add(y, op.matmul(sums, stored.correction, False, True)).output(0)
        scales = [f"{tensor.name.removesuffix('.weight')}.scale" for tensor in tensors]
        if self._is_scale(scales[0]):
            factors = [
                np.full(tensor.shape[0] if order is None else len(order), self.floats(name))
                for name, tensor, order in zip(scales, tensors, orders, strict=True)
            ]
            y = op.multiply(y, self.constant(np.concatenate(factors))).output(0)
        return y

    def _is_scale(self, name: str) -> bool:
        """Return True if a tensor is the scale of a whole matrix, as NVFP4 has it."""
        tensor = self._file.tensors.get(name)
        return tensor is not None and tensor.weights == 1

    def _group_sums(self, x: ov.Output, groups: int, columns: int) -> ov.Output:
        """Return the sums of ``x`` in each group; products of the same ``x`` share them."""
        node = x.get_node()
        key = (hash((node.get_friendly_name(), x.get_index())), columns)
        if key not in self._sums:
            lead = len(x.get_partial_shape()) - 1
            shaped = op.reshape(x, whole([0] * lead + [groups, columns]), True)
            self._sums[key] = node, op.reduce_sum(shaped, whole([-1]), False)
        return self._sums[key][1].output(0)

    def _with_sums(self, x: ov.Output, columns: int, stored: _Stored) -> ov.Output:
        """Return ``x`` followed by the sums of its groups, once for each digit of the rests."""
        group = int(stored.codes.shape[-1])
        sums = self._group_sums(x, columns // group, group)
        key = (hash((x.get_node().get_friendly_name(), x.get_index())), group)
        if key not in self._extended:
            parts = [sums]
            if missing := -(columns // group) % group:
                parts.append(self._zeros(x, missing))
            self._extended[key] = op.concat([x, *parts * REST_DIGITS], -1)
        return self._extended[key].output(0)

    def _zeros(self, x: ov.Output, columns: int) -> ov.Output:
        """Return columns of zeros for each token of ``x``.

        Inputs of layers share them: with one request each node takes time (``bench/gguf.md``).
        """
        lead = len(x.get_partial_shape()) - 1
        # All inputs by batch and length have as many tokens; flat ones may not.
        key = 0 if lead == 2 else hash(x.get_node().get_friendly_name()), columns
        if key not in self._blank:
            tokens = op.gather(op.shape_of(x), whole(list(range(lead))), whole(0))
            shape = op.concat([tokens, whole([columns])], 0)
            self._blank[key] = op.broadcast(self.constant(0.0), shape)
        return self._blank[key].output(0)

    def _count(self, tensor: GgufTensor) -> None:
        layout = UNPACKED.get(tensor.type.name)
        if layout is not None:
            self._computed[layout.group] += tensor.weights

    # Rows of an embedding.

    def embedded(self, ids: ov.Output, name: str, width: int) -> ov.Output:
        """Return the rows of a matrix for each id; a tied output layer may use the matrix too."""
        tensor = self.tensor(f"{name}.weight")
        if len(tensor.shape) != 2 or tensor.shape[1] != width:
            raise self.wrong_shape(tensor, f"rows of {width} numbers")
        if tensor.type.name in UNPACKED:
            form = OffsetForm.EXACT if self._form is OffsetForm.SPLIT else self._form
            matrix = _dequantized(self._store([tensor], [None], form))
        else:
            matrix = self._plain([tensor], [None])
        self._embeddings[name] = matrix
        return op.gather(matrix, ids, whole(0)).output(0)

    # Matrices of several experts or heads.

    def matrices(
        self, names: Sequence[str], shape: tuple[int, int, int], interleaved: bool = False
    ) -> ov.Node:
        """Return the matrices of all experts, (experts, rows, columns).

        Args:
            names: several tensors have their rows joined, expert by expert.
            shape: that each tensor must have.
            interleaved: the rows of the tensors come in turn.
        """
        tensors = [self.matrix(name, shape) for name in names]
        for tensor in tensors:
            self._count(tensor)
        count, rows, columns = shape
        places = np.arange(len(tensors) * rows).reshape(len(tensors), rows)
        if interleaved:
            places = np.arange(len(tensors) * rows).reshape(rows, len(tensors)).T
        # Where each tensor's rows are in the joined matrix of all experts.
        order = [
            (np.arange(count)[:, np.newaxis] * len(tensors) * rows + place).reshape(-1)
            for place in places
        ]
        kinds = {tensor.type.name in UNPACKED for tensor in tensors}
        groups = {UNPACKED[each.type.name].group for each in tensors if each.type.name in UNPACKED}
        if kinds == {True} and len(groups) == 1:
            form = OffsetForm.EXACT if self._form is OffsetForm.SPLIT else self._form
            stored = self._store(tensors, [None] * len(tensors), form, order)
            lead = (count, len(tensors) * rows)
            return _dequantized(stored, lead)
        found = self._scratch.empty((count * len(tensors) * rows, columns), np.float32)
        for tensor, place in zip(tensors, order, strict=True):
            for start, stop in self._slices(tensor.row_count, columns):
                found[place[start:stop]] = _float_rows(tensor, start, stop)
        return self._shared(found.reshape(count, len(tensors) * rows, columns))

    # Constants.

    def _slices(self, rows: int, columns: int) -> Iterator[tuple[int, int]]:
        return iter(()) if self._scratch.is_dry else _slices(rows, columns)

    def constant(self, value: Any) -> ov.Node:
        """Return a constant in float32."""
        return op.constant(np.asarray(value, np.float32))

    def _shared(self, array: NDArray[Any]) -> ov.Node:
        """Return a constant that refers to an array."""
        if array.size == 1:
            return op.constant(array)
        return self._scratch.constant(array)

    def _plain(
        self, tensors: Sequence[GgufTensor], orders: Sequence[NDArray[np.int64] | None]
    ) -> ov.Node:
        """Return rows of unquantized tensors: float16 and bfloat16 as they are, converted."""
        kind = tensors[0].type.name
        counts = [
            each.shape[0] if order is None else len(order)
            for each, order in zip(tensors, orders, strict=True)
        ]
        columns = tensors[0].shape[-1]
        dtype: Any = {"F16": np.float16, "BF16": np.uint16}.get(kind, np.float32)
        found = self._scratch.empty((sum(counts), columns), dtype)
        at = 0
        for tensor, order, count in zip(tensors, orders, counts, strict=True):
            for start, stop in self._slices(count, columns):
                rows = _raw_rows(tensor, order, start, stop)
                numbers = floats_of(kind, rows)
                assert numbers is not None
                self._check_finite(tensor, numbers)
                found[at + start : at + stop] = rows.view("<u2") if kind == "BF16" else numbers
            at += count
        if kind == "BF16":
            return op.convert(self._scratch.constant(found, ov.Type.bf16, found.shape), "f32")
        node = self._shared(found)
        return op.convert(node, "f32") if kind == "F16" else node

    def _store(
        self,
        tensors: Sequence[GgufTensor],
        orders: Sequence[NDArray[np.int64] | None],
        form: OffsetForm,
        places: Sequence[NDArray[np.int64]] | None = None,
        *,
        is_product: bool = False,
    ) -> _Stored:
        """Unpack tensors, and write their rows into the arrays of one matrix.

        Args:
            orders: the rows of each tensor.
            places: where each of these rows is in the matrix; None: one after the other.
            is_product: of a layer, so that it may have the narrow form of *scaled*.
        """
        counts = [
            each.row_count if order is None else len(order)
            for each, order in zip(tensors, orders, strict=True)
        ]
        columns = tensors[0].shape[-1]
        rows, groups = sum(counts), columns // UNPACKED[tensors[0].type.name].group
        target = _target(tensors, form, rows * columns if is_product else 0)
        if target.has_rest:
            groups += rest_groups(groups, target.group)
            columns = groups * target.group
        is_narrow = target.kind in ("i4", "u4")
        codes = self._scratch.empty((rows, columns // 2 if is_narrow else columns), np.uint8)
        scale = np.empty((rows, groups, 1), np.float32)
        zero = correction = None
        if target.zero:
            dtype: Any = np.uint8 if target.zero == "u8" else np.float32
            zero = self._scratch.empty((rows, groups, 1), dtype)
        if target.has_correction:
            correction = self._scratch.empty((rows, groups), np.float32)
        at = 0
        for number, (tensor, order, count) in enumerate(zip(tensors, orders, counts, strict=True)):
            for start, stop in self._slices(count, tensor.shape[-1]):
                packed = unpack(tensor.type.name, _raw_rows(tensor, order, start, stop))
                self._check_finite(tensor, packed.scale)
                if packed.minus is not None:
                    self._check_finite(tensor, packed.minus)
                where: Any = slice(at + start, at + stop)
                if places is not None:
                    where = places[number][start:stop]
                packed, factors, added = formed(packed, target, form)
                flat = packed.codes.reshape(stop - start, columns).view(np.uint8)
                # OpenVINO's types of 4 bits have the first number of a byte in its low half.
                codes[where] = (flat[:, ::2] & 15) | flat[:, 1::2] << 4 if is_narrow else flat
                scale[where] = packed.scale[..., np.newaxis]
                if zero is not None:
                    zero[where] = factors[..., np.newaxis]
                if correction is not None:
                    correction[where] = added
            at += count
        shape = (rows, groups, target.group)
        limit: float | None = None
        if form is OffsetForm.SCALED and places is None:
            limit = _SCALE_ERROR
        elif form is OffsetForm.SPLIT and is_narrow and is_product:
            # Nothing is rounded in this form. Scales of Q4_1 are float16 in the file, and can stay
            # so.
            limit = 0.0
        return _Stored(
            self._scratch.constant(codes, getattr(ov.Type, target.kind), shape),
            None if zero is None else self._shared(zero),
            self._scale(scale, limit),
            None if correction is None else self._shared(correction),
            target.has_rest,
        )

    def _scale(self, scale: Floats, limit: float | None) -> ov.Node:
        """Return scales, in float16 if that changes none by more than a part; None: in float32."""
        if limit is not None:
            halves = self._scratch.halves(scale, limit)
            if halves is not None:
                return op.convert(self._shared(halves), "f32")
        found = self._scratch.empty(scale.shape, np.float32)
        if not self._scratch.is_dry:
            found[:] = scale
        return self._shared(found)


def whole(value: Any) -> ov.Node:
    """Return a constant in int64."""
    return op.constant(np.asarray(value, np.int64))


def _slices(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    step = max(1, _SLICE // columns)
    for start in range(0, rows, step):
        yield start, min(rows, start + step)


def _raw_rows(tensor: GgufTensor, order: NDArray[np.int64] | None, start: int, stop: int) -> Bytes:
    if order is None:
        return np.ascontiguousarray(tensor.rows(start, stop))
    wanted = order[start:stop]
    lowest = int(wanted.min())
    return np.asarray(tensor.rows(lowest, int(wanted.max()) + 1)[wanted - lowest])


def _float_rows(tensor: GgufTensor, start: int, stop: int) -> Floats | NDArray[np.float16]:
    rows = np.ascontiguousarray(tensor.rows(start, stop))
    found = floats_of(tensor.type.name, rows)
    return unpack(tensor.type.name, rows).floats() if found is None else found


def _target(tensors: Sequence[GgufTensor], form: OffsetForm, weights: int) -> MatrixForm:
    layouts = [UNPACKED[each.type.name] for each in tensors]
    has_offset = any(each.has_offset for each in layouts)
    is_narrow = all(each.kind in ("i4", "u4") for each in layouts)
    group = layouts[0].group
    if not has_offset or form is OffsetForm.SPLIT:
        return MatrixForm("i4" if is_narrow else "i8", group, "", has_offset)
    if form is OffsetForm.SCALED:
        if is_narrow and weights > LARGE:
            # With one request reading the weights takes half of a token's time, so large matrices
            # keep 4 bits (decision 0086).
            return MatrixForm("u4", group, "u8", has_rest=True)
        return MatrixForm("u8", group, "u8")
    # Fractional zero points are the file to the bit; the plug-in's integer kernels take whole ones
    # only, so this form computes in float32 (decision 0086).
    return MatrixForm("u4" if is_narrow else "u8", group, "f32")


def _dequantized(stored: _Stored, lead: tuple[int, ...] | None = None) -> ov.Node:
    """Return the nodes that the plug-in takes for a compressed matrix.

    Args:
        lead: the matrix has several dimensions before its columns.
    """
    rows, groups, columns = (int(each) for each in stored.codes.shape)
    node = op.convert(stored.codes, "f32")
    if stored.zero is not None:
        is_whole = stored.zero.get_element_type() == ov.Type.u8
        node = op.subtract(node, op.convert(stored.zero, "f32") if is_whole else stored.zero)
    node = op.multiply(node, stored.scale)
    shape = (rows,) if lead is None else lead
    return op.reshape(node, whole([*shape, groups * columns]), False)
