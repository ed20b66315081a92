"""The precision of language models on processors where OpenVINO's bfloat16 ends the process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import openvino
from openvino import opset13 as ops

from calculators.kit.cpu_features import cpu_flags
from calculators.llm.engine.engine_settings import EngineSettings

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
