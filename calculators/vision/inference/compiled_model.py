"""TFLite models, compiled once per process and content.

Denormal numbers count as zeros while a model computes, as in TFLite. Numbers below 1.2e-38 take a
processor many times longer than others, and some models make them out of a picture: that of faces
with attention is 10 % quicker so. OpenVINO's own setting holds for the thread that compiles a
model, for good, and for no other, so the mode is set around each inference.

OpenVINO's frontend does not hand out all of a ``.tflite`` file. A TFLite model is a FlatBuffer:
tables whose fields are found through a table of offsets. Only the fields needed here are read, so
no schema package is needed.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import platform
import struct
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from tempfile import NamedTemporaryFile
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.file_threads import DaemonThreads
from calculators.kit.machine import usable_processors
from calculators.tensors.openvino.infer_requests import InferRequests
from calculators.vision.inference.custom_operations import CONVERSIONS
from calculators.vision.inference.fast_operations import use_fast_operations
from graph_runtime import Code, GraphError

#: The FlatBuffer's file identifier, at byte 4.
_IDENTIFIER = b"TFL3"


def is_tflite(data: bytes) -> bool:
    """Return True if the bytes look like a TFLite model."""
    return len(data) > 16 and data[4:8] == _IDENTIFIER


def custom_options(data: bytes) -> dict[str, list[bytes]]:
    """Return the options of the custom operations of the first subgraph, in the model's order.

    Args:
        data: the file's content.

    Raises:
        ValueError: the bytes are not a TFLite model.
    """
    try:
        return _custom_options(data)
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise ValueError("this is not a TFLite model") from error


def _custom_options(data: bytes) -> dict[str, list[bytes]]:
    model = _offset(data, 0)
    names = [_text(data, _field(data, code, 1)) for code in _tables(data, _field(data, model, 1))]
    subgraphs = list(_tables(data, _field(data, model, 2)))
    found: dict[str, list[bytes]] = {}
    for operator in _tables(data, _field(data, subgraphs[0], 3)):
        place = _field(data, operator, 0)
        name = names[_unsigned(data, place) if place else 0]
        if name:
            found.setdefault(name, []).append(_bytes(data, _field(data, operator, 5)))
    return found


def _unsigned(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def _offset(data: bytes, at: int) -> int:
    return at + _unsigned(data, at)


def _field(data: bytes, table: int, number: int) -> int:
    """Return the place of a table's field; 0 if the table has its default."""
    offsets = table - struct.unpack_from("<i", data, table)[0]
    at = 4 + 2 * number
    if at >= struct.unpack_from("<H", data, offsets)[0]:
        return 0
    place = struct.unpack_from("<H", data, offsets + at)[0]
    return table + place if place else 0


def _tables(data: bytes, field: int) -> Iterator[int]:
    """Yield the places of the tables in a vector."""
    if field:
        start = _offset(data, field)
        for index in range(_unsigned(data, start)):
            yield _offset(data, start + 4 + 4 * index)


def _bytes(data: bytes, field: int) -> bytes:
    if not field:
        return b""
    start = _offset(data, field)
    return data[start + 4 : start + 4 + _unsigned(data, start)]


def _text(data: bytes, field: int) -> str:
    return _bytes(data, field).decode()


#: The mode's bits "flush to zero" and "denormals are zeros", and the place of the mode in the
#: environment that ``fegetenv`` writes on Linux for x86-64.
_ZEROS: Final = 0x8040
_MODE: Final = 7

_Environment = ctypes.c_uint32 * 16


@contextmanager
def denormals_are_zeros() -> Iterator[None]:
    """Let the calling thread take denormal numbers for zeros. Elsewhere than on x86-64: nothing."""
    library = _library()
    if library is None:
        yield
        return
    before = _Environment()
    library.fegetenv(before)
    meanwhile = _Environment.from_buffer_copy(before)
    meanwhile[_MODE] |= _ZEROS
    library.fesetenv(meanwhile)
    try:
        yield
    finally:
        library.fesetenv(before)


@cache
def _library() -> Any:
    """Return the C library's functions for the mode, None where its layout is not known."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    try:
        # Calls do not give up the interpreter's lock: they take nanoseconds.
        library = ctypes.PyDLL("libm.so.6")
        return library if hasattr(library, "fesetenv") else None
    except OSError:
        return None


Array = npt.NDArray[Any]

#: Compiled models that a process keeps; the one used longest ago is dropped first.
KEPT_MODELS: Final = 32
#: Inferences of one model that overlap on an event loop.
_CONCURRENT: Final = 4
#: Threads that compute one model at the same time.
_LANES: Final = min(4, usable_processors())
#: Forms of one model for other shapes that it keeps; clients may choose the shapes.
_KEPT_SHAPES: Final = 8
#: Stands for an output that is left out.
_NOTHING: Final[Array] = np.empty(0, np.float32)

#: Held while a model is read and compiled, for seconds: never taken on an event loop.
_lock = threading.RLock()
#: Held while the dictionary is read or changed.
_guard = threading.Lock()
#: By content, threads and outputs left out. guarded by: _guard
_compiled: OrderedDict[tuple[bytes, int, frozenset[int]], CompiledModel] = OrderedDict()
#: Compiles for event loops. One model at a time: compiling takes all processors.
_compiler: Final = DaemonThreads(1)
#: Options of the custom operations of the model that is being read. guarded by: _lock
_options: dict[str, deque[bytes]] = {}


@final
class TfLiteModel:
    """The content of a ``.tflite`` file: the packet MODEL.

    Raises:
        GraphError: the bytes are not a TFLite model (INVALID_ARGUMENT).
    """

    __slots__ = ("content", "digest")

    def __init__(self, content: bytes) -> None:
        if not is_tflite(content):
            raise GraphError(
                f"a model of {len(content)} bytes is not in TFLite's format",
                code=Code.INVALID_ARGUMENT,
            )
        self.content = content
        self.digest = hashlib.sha256(content).digest()


class CompiledModel:
    """A model that OpenVINO has compiled for the CPU, in float32.

    OpenVINO's own default is bfloat16 on CPUs that have it, which moves landmarks by tens of
    pixels.

    Attributes:
        input_shapes: of its tensors, in the file's order.
        input_names, output_names: likewise.
    """

    def __init__(self, network: Any, threads: int, left_out: frozenset[int] = frozenset()) -> None:
        """``left_out``: places of outputs that are not computed; empty arrays stand for them."""
        import openvino

        self._openvino = openvino
        self._network = network
        self._threads = threads
        self._left_out = left_out
        self.input_names = [_name(port) for port in network.inputs]
        self.output_names = [_name(port) for port in network.outputs]
        self._places = [place for place in range(len(self.output_names)) if place not in left_out]
        self._compiled = self._compile()
        self.input_shapes = [tuple(port.get_partial_shape().to_shape()) for port in network.inputs]
        self._input_types = [port.get_element_type() for port in self._compiled.inputs]
        self.input_dtypes = [each.to_dtype() for each in self._input_types]
        self._requests: InferRequests | None = None
        self._lock = threading.Lock()
        self._idle = [self._compiled.create_infer_request()]  # guarded by: _lock
        self._lanes = threading.BoundedSemaphore(_LANES)
        self._reshaped: dict[tuple[tuple[int, ...], ...], CompiledModel] = {}

    def _compile(self) -> Any:
        network = self._network
        if self._left_out:
            # What only the other outputs need does not come into the compiled form.
            # The mask of poses takes 4.7 of the model's 13.8 ms, and a gate drops it afterwards
            # (decision 0075).
            kept = [network.outputs[place].node.input_value(0) for place in self._places]
            network = self._openvino.Model(kept, network.get_parameters())
        return _core().compile_model(
            network,
            "CPU",
            {
                # OpenVINO's default with AMX is bfloat16: landmarks of poses then differ by up to
                # 55 of 256 pixels (decision 0061).
                "INFERENCE_PRECISION_HINT": "f32",
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": self._threads,
                # Pinned, all models of one thread would share the first core.
                "ENABLE_CPU_PINNING": False,
            },
        )

    def infer(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the model in the calling thread; inputs and outputs are in the file's order.

        Raises:
            RuntimeError: OpenVINO's own error.
        """
        with self._lanes:
            request = self._take()
            try:
                for place, array in enumerate(inputs):
                    tensor = self._openvino.Tensor(array, shared_memory=True)
                    request.set_input_tensor(place, tensor)
                # Not start_async: another thread would compute, with cold caches.
                with denormals_are_zeros():
                    request.infer(None, share_inputs=True, share_outputs=True)
                # Copies: the next inference writes to the same memory.
                return self._all(
                    [
                        np.array(request.get_output_tensor(index).data)
                        for index in range(len(self._places))
                    ]
                )
            finally:
                with self._lock:
                    self._idle.append(request)

    def _take(self) -> Any:
        """An idle infer request; a new one for a thread that comes while others compute.

        One compiled form computes for one thread at a time, so a new request has a form of its own.
        """
        with self._lock:
            if self._idle:
                return self._idle.pop()
        # A form per thread that really computes at the same time: OpenVINO computes one request per
        # form in the caller's thread (decision 0067).
        return self._compile().create_infer_request()

    async def infer_async(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the model while the event loop goes on; otherwise like `infer`."""
        return self._all(await self.requests.infer(inputs))

    @property
    def requests(self) -> InferRequests:
        """The infer requests for coroutines, which are made at the first use."""
        if self._requests is None:
            with self._lock:
                if self._requests is None:
                    dtypes = [port.get_element_type().to_dtype() for port in self._compiled.outputs]
                    self._requests = InferRequests(self._compiled, dtypes, _CONCURRENT)
        return self._requests

    def _all(self, computed: list[Array]) -> list[Array]:
        """Return the outputs in the file's order, with empty arrays for those that are left out."""
        if not self._left_out:
            return computed
        outputs: list[Array] = [_NOTHING] * len(self.output_names)
        for place, array in zip(self._places, computed, strict=True):
            outputs[place] = array
        return outputs

    def for_shapes(self, shapes: Sequence[tuple[int, ...]]) -> CompiledModel:
        """Return the model for inputs of these shapes: itself, or a form compiled once per shapes.

        Raises:
            GraphError: the model cannot take such inputs (INVALID_ARGUMENT).
        """
        wanted = tuple(shapes)
        if (known := self.known_for(wanted)) is not None:
            return known
        with _lock:
            found = self._reshaped.get(wanted)
            if found is None:
                try:
                    network = self._network.clone()
                    network.reshape(
                        {
                            port: self._openvino.PartialShape(list(shape))
                            for port, shape in zip(network.inputs, wanted, strict=True)
                        }
                    )
                    found = CompiledModel(network, self._threads, self._left_out)
                except (RuntimeError, ValueError) as error:
                    raise GraphError(
                        f"the model takes tensors of the shapes {_listed(self.input_shapes)}; "
                        f"{_listed(wanted)} came, and it cannot be resized to that",
                        code=Code.INVALID_ARGUMENT,
                    ) from error
                self._reshaped = {**self._reshaped, wanted: found}
                while len(self._reshaped) > _KEPT_SHAPES:
                    del self._reshaped[next(iter(self._reshaped))]
        return found

    def known_for(self, shapes: Sequence[tuple[int, ...]]) -> CompiledModel | None:
        """Return the model for inputs of these shapes; None if it has to be compiled."""
        if list(shapes) == self.input_shapes:
            return self
        return self._reshaped.get(tuple(shapes))

    def warm(self) -> None:
        """Run once on zeros, so that the first frame takes no longer than others."""
        self.infer(
            [
                np.zeros(shape, dtype)
                for shape, dtype in zip(self.input_shapes, self.input_dtypes, strict=True)
            ]
        )


def compiled_model(
    model: TfLiteModel, threads: int, left_out: frozenset[int] = frozenset()
) -> CompiledModel:
    """Return the compiled model. Takes seconds the first time; see `beside_the_loop`.

    Args:
        left_out: places of outputs that nobody wants; see `CompiledModel`.

    Raises:
        GraphError: OpenVINO cannot load the model (FAILED_PRECONDITION).
    """
    with _lock:
        found = known_model(model, threads, left_out)
        if found is not None:
            return found
        try:
            found = CompiledModel(_read(model.content), threads, left_out)
            # The first inference packs weights and generates code.
            found.warm()
        except Exception as error:
            raise GraphError(
                f"OpenVINO cannot load the TFLite model: {library_reason(error)}",
                code=Code.FAILED_PRECONDITION,
            ) from error
        with _guard:
            # By content: graphs and reloads that name the same file share the model (decision
            # 0061).
            _compiled[model.digest, threads, left_out] = found
            while len(_compiled) > KEPT_MODELS:
                _compiled.popitem(last=False)
        return found


def known_model(
    model: TfLiteModel, threads: int, left_out: frozenset[int] = frozenset()
) -> CompiledModel | None:
    """Return the model if it is compiled."""
    key = (model.digest, threads, left_out)
    with _guard:
        found = _compiled.get(key)
        if found is not None:
            _compiled.move_to_end(key)
        return found


async def beside_the_loop(compiles: Callable[[], CompiledModel]) -> CompiledModel:
    """Return what ``compiles`` does, in the thread that compiles models for event loops."""

    def ready() -> CompiledModel:
        found = compiles()
        _ = found.requests
        return found

    return await asyncio.wrap_future(_compiler.submit(ready))


def _read(content: bytes) -> Any:
    """Read a model. Lock held: the conversions below take its options in the model's order."""
    _options.clear()
    for name, options in custom_options(content).items():
        if name not in CONVERSIONS:
            raise GraphError(
                f'the model has the custom operation "{name}", which is not supported',
                code=Code.UNIMPLEMENTED,
            )
        _options[name] = deque(options)
    # OpenVINO recognises TFLite by the ending of a file only.
    with NamedTemporaryFile(suffix=".tflite") as file:
        file.write(content)
        file.flush()
        network = _core().read_model(file.name)
    # Here, as what it imports: most models have no such operations.
    if not CONVERSIONS.keys().isdisjoint(_options):
        from calculators.vision.inference.attention_operations import replace_attention

        # Half of the two milliseconds were 101 small convolutions of 8 to 20 us each, whatever they
        # compute (decision 0083).
        replace_attention(network)
    # Interpolations of the model of poses took 1.2 of its 11.8 ms in OpenVINO's own kernel
    # (decision 0079).
    use_fast_operations(network)
    return network


@cache
def _core() -> Any:
    """Return the core of TFLite models, with MediaPipe's operations."""
    import openvino  # here: processes without such a model do not load it
    from openvino.frontend import ConversionExtension

    core = openvino.Core()
    for name, convert in CONVERSIONS.items():
        core.add_extension(ConversionExtension(name, partial(_convert, name, convert)))
    return core


def _convert(name: str, convert: Callable[[Any, bytes], list[Any]], node: Any) -> list[Any]:
    return convert(node, _options[name].popleft())


def _name(port: Any) -> str:
    names = sorted(port.get_names())
    return names[0] if names else ""


def _listed(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(str(tuple(shape)) for shape in shapes)
