"""What may stand in a config.json: OpenVINO Model Server's schema (``src/schema.cpp``).

Looser in three places: ``model_config_list`` may be missing, the keys that its own
``--add_to_config`` writes are accepted, and what is not served yet is only looked at from outside.
``python_path`` and the keys of `servers.config.load_policy` are graphrt's own.
Stricter in one: values of models that it would ignore with a warning are errors.
"""

from __future__ import annotations

from typing import Any, Final

from servers.config.checks import (
    Check,
    Report,
    anything,
    at_least_one,
    boolean,
    either,
    integer,
    list_of,
    map_of,
    nonempty_text,
    number,
    object_of,
    of_type,
    one_of,
    reads,
    text,
    word,
)
from servers.config.load_policy import AFTER_UNLOAD, AT_START, BESIDE, ON_DEMAND
from servers.config.metrics_config import refusal_of_list
from servers.config.model_values import (
    MAX_NIREQ,
    batch_size_of,
    color_format_of,
    layout_of,
    numbers_of,
    precision_of,
    shape_of,
)

#: One path or several.
_PATHS: Final = either(nonempty_text, str, list_of(nonempty_text))

_GRAPH: Final[dict[str, Check]] = {
    "name": nonempty_text,
    "base_path": text,
    "graph_path": text,
    "subconfig": text,
    "python_path": _PATHS,
    "load": word(AT_START, ON_DEMAND),
    "idle_unload_seconds": number(0),
    "pinned": boolean,
    "reload": word(BESIDE, AFTER_UNLOAD),
}

_VERSION_POLICY: Final = one_of(
    {
        "all": object_of({}),
        "latest": object_of({"num_versions": integer(1)}, required=("num_versions",)),
        "specific": object_of({"versions": at_least_one(integer(1))}, required=("versions",)),
    }
)

_SHAPE: Final = reads(shape_of, "a string or a list of lengths", str, list)
_LAYOUT: Final = reads(layout_of, "a string", str)
_NUMBERS: Final = reads(numbers_of, "a number, a string or a list", int, float, str, list)

_MODEL: Final[dict[str, Check]] = {
    **_GRAPH,
    "batch_size": reads(batch_size_of, "a number or a string", int, str),
    "model_version_policy": _VERSION_POLICY,
    "shape": either(map_of(_SHAPE), dict, _SHAPE),
    "layout": either(map_of(_LAYOUT), dict, _LAYOUT),
    "nireq": integer(0, MAX_NIREQ),
    "target_device": text,
    "allow_cache": boolean,
    "plugin_config": map_of(of_type("a string, a number, true or false", str, bool, int, float)),
    "custom_loader_options": map_of(anything, required=("loader_name",)),
    "mean": _NUMBERS,
    "scale": _NUMBERS,
    "color_format": reads(color_format_of, "a string", str),
    "precision": reads(precision_of, "a string", str),
}

MODEL_CONFIG: Final = object_of(_MODEL, required=("name",))
_MODELS: Final = list_of(object_of({"config": MODEL_CONFIG}, required=("config",)))
_NAMED: Final = list_of(map_of(anything, required=("name",)))


def _metrics_list(value: Any, path: str, report: Report) -> None:
    list_of(text)(value, path, report)
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        refusal = refusal_of_list(value)
        if refusal:
            report(path, refusal, None)


_METRICS: Final = object_of(
    {"enable": boolean, "metrics_list": _metrics_list}, required=("enable",)
)

CONFIG: Final = object_of(
    {
        "model_config_list": _MODELS,
        "mediapipe_config_list": list_of(object_of(_GRAPH, required=("name",))),
        "pipeline_config_list": _NAMED,
        "custom_node_library_config_list": _NAMED,
        "custom_loader_config_list": list_of(map_of(anything, required=("config",))),
        "python_path": _PATHS,
        "monitoring": object_of({"metrics": _METRICS}, required=("metrics",)),
    }
)

SUBCONFIG: Final = object_of({"model_config_list": _MODELS}, required=("model_config_list",))
