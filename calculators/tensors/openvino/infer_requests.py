"""`InferRequests`: the infer requests of one compiled model, for coroutines of any event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Seconds until a request without an answer is checked, and the longest time between two checks.
#: Most inferences, with their wait for a turn, are over before the first.
_FIRST_LOOK: Final = 0.05
_LONGEST_LOOK: Final = 0.2


class InferRequests:
    """A fixed number of infer requests; an inference that finds none idle waits for its turn.

    An inference runs in OpenVINO's threads and blocks no event loop; the thread that ends one
    starts the next. Nothing is copied: inputs are read in place if they are contiguous, outputs are
    written into new memory.
    """

    def __init__(self, compiled: Any, output_dtypes: Sequence[np.dtype[Any]], count: int) -> None:
        """``compiled`` is an `openvino.CompiledModel`."""
        import openvino  # here: processes without such a model do not load it

        self._openvino = openvino
        self._input_types = [port.get_element_type() for port in compiled.inputs]
        self._outputs = [
            (port.get_element_type(), openvino.Shape(_smallest(port.get_partial_shape())))
            for port in compiled.outputs
        ]
        self._output_dtypes = output_dtypes
        self._lock = threading.Lock()
        # In the server's process: a process between would copy every tensor twice (decision 0025).
        self._idle = [compiled.create_infer_request() for _ in range(count)]
        self._waiting: deque[_Inference] = deque()
        self._count = count
        self._observers: tuple[Callable[[float], object], Callable[[float], object]] | None = None

    @property
    def active(self) -> int:
        """The number of infer requests that are not idle."""
        return self._count - len(self._idle)

    def observe_times(
        self, waited: Callable[[float], object], computed: Callable[[float], object]
    ) -> None:
        """See `calculators.tensors.openvino.model.Model.observe_times`."""
        self._observers = waited, computed

    async def infer(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the model on ``inputs``; inputs and outputs are in the model's order.

        The element types must be the model's. After a cancellation the inference ends by itself.

        Raises:
            RuntimeError: OpenVINO's own error.
        """
        inference = _Inference(self, inputs)
        with self._lock:
            request = self._idle.pop() if self._idle else None
            if request is None:
                self._waiting.append(inference)
        if request is not None and not inference.start(request):
            self._pass_on(request)
        outputs = self.arrays(await inference.outputs)
        if self._observers is not None:
            waited, computed = self._observers
            waited((inference.started - inference.asked) / 1000)
            computed((inference.ended - inference.started) / 1000)
        return outputs

    def take_back(self, inference: _Inference) -> bool:
        """End an inference, once, from any thread; False if it was over. Its request goes on."""
        with self._lock:
            request = inference.request
            inference.request = None
        if request is None:
            return False
        self._pass_on(request)
        return True

    def input_tensors(self, arrays: Sequence[Array]) -> list[Any]:
        """Tensors of OpenVINO in the arrays' memory, which must outlive them."""
        ov = self._openvino
        return [
            ov.Tensor(array, ov.Shape(array.shape), element_type)
            for array, element_type in zip(arrays, self._input_types, strict=True)
        ]

    def output_tensors(self) -> list[Any]:
        """Allocate memory for the outputs. Outputs of unknown size grow when they are written."""
        return [self._openvino.Tensor(*each) for each in self._outputs]

    def arrays(self, tensors: Sequence[Any]) -> list[Array]:
        """Return the outputs as arrays, in the tensors' own memory."""
        return [
            tensor.data.view(dtype)
            for tensor, dtype in zip(tensors, self._output_dtypes, strict=True)
        ]

    def _pass_on(self, request: Any) -> None:
        """Give a request to the first inference that still waits, else to the idle ones."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._idle.append(request)
                    return
                inference = self._waiting.popleft()
            if not inference.outputs.cancelled() and inference.start(request):
                return


class _Inference:
    """One inference, waiting or under way. Keeps the memory that its request reads and writes.

    OpenVINO 2026.4 calls back from one of its threads, but only after success. So a request
    without an answer is checked now and then for a failure.
    """

    def __init__(self, requests: InferRequests, inputs: Sequence[Array]) -> None:
        """Make an inference. Called on the event loop that waits for ``outputs``."""
        self.request: Any = None
        #: Times at which it was made, given to a request, and done (``time.perf_counter_ns``).
        self.asked = self.started = self.ended = perf_counter_ns()
        #: None at the end: OpenVINO's thread may hold this a little longer. If that were the last
        #: reference to a request, the request would wait forever for the thread that frees it.
        self._requests: InferRequests | None = requests
        self._loop = asyncio.get_running_loop()
        self.outputs: asyncio.Future[list[Any]] = self._loop.create_future()
        self._inputs = [np.require(array, requirements=("C", "ALIGNED")) for array in inputs]
        self._tensors: list[Any] = []
        self._is_started = False
        #: The request's reference to this. The request keeps the list, so it is emptied at the end.
        self._link = [self]
        # After 50 ms instead of 10: most inferences have ended by then, and each check costs a turn
        # of the loop (decision 0078).
        self._timer = self._loop.call_later(_FIRST_LOOK, self._look, _FIRST_LOOK)

    def start(self, request: Any) -> bool:
        """Start on a request, from any thread. False if that fails; the future has the error."""
        try:
            assert self._requests is not None, "it has not ended"
            self._tensors = self._requests.output_tensors()
            for place, tensor in enumerate(self._requests.input_tensors(self._inputs)):
                request.set_input_tensor(place, tensor)
            for place, tensor in enumerate(self._tensors):
                request.set_output_tensor(place, tensor)
            # Anew each time: a request that starts while its callback returns would have none.
            request.set_callback(_called_back, self._link)
            self.request = request
            self.started = perf_counter_ns()
            request.start_async()
        except Exception as error:
            self.request = None
            self._deliver(error)
            return False
        self._is_started = True
        return True

    def succeeded(self) -> None:
        """Deliver the outputs to the waiting event loop. Any thread."""
        ended = perf_counter_ns()
        if self._requests is not None and self._requests.take_back(self):
            self.ended = ended
            self._deliver(None)

    def _look(self, delay: float) -> None:
        request = self.request
        if request is None:
            if self._is_started or self.outputs.cancelled():
                return
        elif self._is_started:
            try:
                # The binding (2026.4) calls back only after success, so a failure has to be asked
                # for (decision 0025).
                request.wait_for(0)
            except RuntimeError as error:
                # If this inference is over already, the error is the next one's, which sees it too.
                if self._requests is not None and self._requests.take_back(self):
                    self._finish(error)
                return
        delay = min(2 * delay, _LONGEST_LOOK)
        self._timer = self._loop.call_later(delay, self._look, delay)

    def _deliver(self, error: Exception | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._finish, error)
        except RuntimeError:
            self._link.clear()  # that event loop is closed, so nothing waits there

    def _finish(self, error: Exception | None) -> None:
        self._timer.cancel()
        if not self.outputs.done():
            if error is None:
                self.outputs.set_result(self._tensors)
            else:
                self.outputs.set_exception(error)
        self._link.clear()
        self._requests = None


def _called_back(link: list[_Inference]) -> None:
    """Take OpenVINO's callback, in one of its threads."""
    link[0].succeeded()


def _smallest(shape: Any) -> list[int]:
    if shape.rank.is_dynamic:
        return [0]
    return [each.min_length if each.is_static else 0 for each in shape]
