"""The choice of the pipeline that runs a model in the engine process."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import openvino
from openvino import opset13 as ops

from calculators.kit.child_process.messages import LoadingPhase, Log
from calculators.kit.machine import cpu_flags
from calculators.llm.engine.admission import (
    AdaptedPipeline,
    Admission,
    OuterPipeline,
    find_cache_capacity,
)
from calculators.llm.engine.core import GenerationRefused
from calculators.llm.engine.genai_pipeline import GenaiPipeline
from calculators.llm.engine.library_config import recommended_device
from calculators.llm.engine.messages import Add, EngineReady, FailedGeneration, Metrics, NewTokens
from calculators.llm.engine.settings import EngineSettings
from calculators.llm.engine.stateful_pipeline import (
    StatefulModel,
    StatefulOmniModel,
    StatefulPipeline,
    StatefulTextModel,
    StatefulVisionModel,
)

#: Seconds for which requests of the current adapter may still join while others wait.
JOINING_SECONDS: Final = 1.0


class AdapterScheduler(OuterPipeline):
    """A `Pipeline` whose requests name their adapters, around one that applies one at a time.

    Requests of one adapter, or of none, run together; the others wait until these have ended. The
    next turn goes to the adapter whose first request has waited longest, with all its requests.
    Once a request has waited for `JOINING_SECONDS`, no other joins the current turn, so every turn
    ends.
    """

    def __init__(
        self, pipeline: AdaptedPipeline, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(pipeline)
        self._clock = clock
        self._current = ""
        #: Waiting requests by adapter, the adapter that has waited longest first.
        self._waiting: dict[str, deque[Add]] = {}
        #: When the first request of each adapter began to wait.
        self._since: dict[str, float] = {}

    def ready(self) -> EngineReady:
        return self._pipeline.ready()

    @property
    def has_work(self) -> bool:
        return self._pipeline.has_work or bool(self._waiting)

    @property
    def has_news(self) -> bool:
        return self._pipeline.has_news or (bool(self._waiting) and not self._pipeline.has_work)

    def add(self, request: Add) -> None:
        adapter = request.settings.adapter
        if not self.has_work:
            self._select(adapter)
        # The library applies one adapter to everything that runs (decision 0024).
        if adapter == self._current and not self._is_turn_over():
            self._pipeline.add(request)
            return
        if adapter not in self._waiting:
            self._waiting[adapter] = deque()
            self._since[adapter] = self._clock()
        self._waiting[adapter].append(request)

    def _is_turn_over(self) -> bool:
        since = next(iter(self._since.values()), None)
        return since is not None and self._clock() - since >= JOINING_SECONDS

    def cancel(self, request_id: int) -> None:
        for adapter, requests in self._waiting.items():
            for request in requests:
                if request.request_id == request_id:
                    requests.remove(request)
                    if not requests:
                        self._forget(adapter)
                    return
        self._pipeline.cancel(request_id)

    def step(self, *, reports_all: bool = True) -> Sequence[NewTokens | FailedGeneration]:
        failed = [] if self._pipeline.has_work else self._begin_turn()
        gained = self._pipeline.step(reports_all=reports_all) if self._pipeline.has_news else ()
        return [*failed, *gained]

    def _begin_turn(self) -> list[FailedGeneration]:
        """Start the requests of the next adapter; return those that are refused."""
        failed: list[FailedGeneration] = []
        adapter = next(iter(self._waiting), None)
        if adapter is not None:
            requests = self._waiting[adapter]
            self._forget(adapter)
            self._select(adapter)
            for request in requests:
                try:
                    self._pipeline.add(request)
                except GenerationRefused as error:
                    failed.append(error.failed(request.request_id))
        return failed

    def _forget(self, adapter: str) -> None:
        del self._waiting[adapter], self._since[adapter]

    def _select(self, adapter: str) -> None:
        if adapter != self._current:
            self._pipeline.select(adapter)
            self._current = adapter

    def metrics(self) -> Metrics:
        metrics = self._pipeline.metrics()
        waiting = metrics.waiting + sum(map(len, self._waiting.values()))
        return msgspec.structs.replace(metrics, waiting=waiting)


_PRECISION: Final = "INFERENCE_PRECISION_HINT"
_EXECUTION: Final = "EXECUTION_MODE_HINT"
_BY_DEVICE: Final = "DEVICE_PROPERTIES"
#: Precisions that work with one thread.
_WORKING: Final = ("f32", "float", "float32", "f16")
#: The properties that decide how many threads a model has.
_OF_THREADS: Final = (
    "ENABLE_HYPER_THREADING",
    "INFERENCE_NUM_THREADS",
    "MODEL_DISTRIBUTION_POLICY",
    "NUM_STREAMS",
    "PERFORMANCE_HINT",
    "PERFORMANCE_HINT_NUM_REQUESTS",
    "SCHEDULING_CORE_TYPE",
)


def with_working_precision(settings: EngineSettings, device: str) -> tuple[EngineSettings, str]:
    """Return settings whose precision works here, and a text for the log if they are others.

    In bfloat16 with AMX the CPU plug-in divides by half of a stream's threads while it compiles a
    language model, so a single thread ends the process by SIGFPE (2026.4.1): with one core, with
    ``INFERENCE_NUM_THREADS`` 1, or with as many streams as cores.
    """
    if "amx_bf16" not in cpu_flags() or not _is_cpu(device):
        return settings, ""
    given = _of_cpu(settings.plugin_config)
    asked = str(given.get(_PRECISION, "")).lower()
    is_exact = not asked and given.get(_EXECUTION) == "ACCURACY"
    if is_exact or asked in _WORKING or _threads_per_stream(given) != 1:
        return settings, ""
    # The property of the whole model wins only if no device has its own, hence the removal below.
    config = {**settings.plugin_config, _PRECISION: "f32"}
    by_device = config.get(_BY_DEVICE)
    if isinstance(by_device, dict):
        config[_BY_DEVICE] = {
            name: {key: value for key, value in of.items() if key != _PRECISION}
            for name, of in by_device.items()
        }
    text = (
        f'model "{Path(settings.model_path).name}" is computed in f32: with one thread OpenVINO '
        "cannot compute it in bf16 on this processor; with two or more (INFERENCE_NUM_THREADS, "
        "NUM_STREAMS) it can"
    )
    return msgspec.structs.replace(settings, plugin_config=config), text


def _is_cpu(device: str) -> bool:
    """Return whether a device is the CPU, or chooses among the CPU only."""
    return device == "CPU" or openvino.Core().available_devices == ["CPU"]


def _of_cpu(config: Mapping[str, Any]) -> dict[str, Any]:
    by_device = config.get(_BY_DEVICE)
    of_cpu = by_device.get("CPU") if isinstance(by_device, dict) else None
    return {**config, **(of_cpu if isinstance(of_cpu, dict) else {})}


def _threads_per_stream(given: Mapping[str, Any]) -> int:
    """Return the threads of a stream, which the plug-in decides; 0: it takes no such properties."""
    place = ops.parameter([1], np.float32)
    model = openvino.Model([ops.relu(place)], [place], "threads")
    properties = {name: given[name] for name in _OF_THREADS if name in given}
    try:
        compiled = openvino.Core().compile_model(model, "CPU", properties)
        threads, streams = (
            int(compiled.get_property(name)) for name in ("INFERENCE_NUM_THREADS", "NUM_STREAMS")
        )
    except (RuntimeError, TypeError, ValueError):
        return 0  # loading the model says more
    return threads // max(streams, 1)


_LOGGER: Final = "graphrt.llm"


def open_pipeline(
    settings: EngineSettings,
    wake: Callable[[], None],
    report: Callable[[LoadingPhase | Log], None] = lambda news: None,
) -> AdapterScheduler | Admission | StatefulPipeline:
    """Load the model.

    Args:
        wake: called, in any thread, when a pipeline has news without a step.
        report: called when a phase of loading begins, and with lines for the log.

    Raises:
        Exception: the library cannot load it; the text is the library's.
    """
    report(LoadingPhase("compiling the model", 0.1, 0.8))
    settings, warning = with_working_precision(settings, settings.device or recommended_device())
    if warning:
        report(Log(logging.WARNING, _LOGGER, warning))

    def on_opened() -> None:
        # With the first token the library reads all weights, and packs them.
        report(LoadingPhase("reading the weights", 0.8, 1.0, _mapped_weights(settings)))

    if settings.kind.batches:
        return _open_batching(settings, on_opened)
    model: type[StatefulModel] = StatefulTextModel
    if settings.kind.speaks:
        model = StatefulOmniModel
    elif settings.kind.sees_images:
        model = StatefulVisionModel
    return StatefulPipeline(lambda: model(settings), wake, on_opened=on_opened)


def _open_batching(
    settings: EngineSettings, on_opened: Callable[[], None]
) -> AdapterScheduler | Admission:
    library = GenaiPipeline(settings, on_opened)
    cache = find_cache_capacity(settings, library.cache_usage_of)
    tokens = settings.max_num_batched_tokens
    # Where prompts are split, the library runs as many sequences as a step has tokens.
    places = tokens if settings.dynamic_split_fuse else settings.max_num_seqs
    pipeline = Admission(library, places, step_tokens=tokens, cache=cache)
    # Adapters stand outside the admission: a turn begins only when nothing of the last one runs.
    return AdapterScheduler(pipeline) if settings.adapters else pipeline


def _mapped_weights(settings: EngineSettings) -> int:
    """Return the bytes of weights that the library maps; 0 where it makes them from a GGUF file."""
    try:
        return (Path(settings.model_path) / f"{settings.kind.weights}.bin").stat().st_size
    except OSError:
        return 0
