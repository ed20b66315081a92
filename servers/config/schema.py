"""What may stand in a config.json: OpenVINO Model Server's schema (``src/schema.cpp``).

Looser in three places: ``model_config_list`` may be missing, the keys that its own
``--add_to_config`` writes are accepted, and what is not served yet is only looked at from outside.
"""

from __future__ import annotations

from typing import Final

from servers.config.checks import (
    Check,
    anything,
    boolean,
    either,
    integer,
    list_of,
    map_of,
    nonempty_text,
    object_of,
    of_type,
    one_of,
    text,
)

_GRAPH: Final[dict[str, Check]] = {
    "name": nonempty_text,
    "base_path": text,
    "graph_path": text,
    "subconfig": text,
}

_VERSION_POLICY: Final = one_of(
    {
        "all": object_of({}),
        "latest": object_of({"num_versions": integer(1)}, required=("num_versions",)),
        "specific": object_of({"versions": list_of(integer(1))}, required=("versions",)),
    }
)

_MODEL: Final[dict[str, Check]] = {
    **_GRAPH,
    "batch_size": of_type("a number or a string", int, str),
    "model_version_policy": _VERSION_POLICY,
    "shape": either(text, str, map_of(anything)),
    "layout": either(text, str, map_of(text)),
    "nireq": integer(0),
    "target_device": text,
    "allow_cache": boolean,
    "plugin_config": map_of(of_type("a string, a number, true or false", str, bool, int, float)),
    "custom_loader_options": map_of(anything, required=("loader_name",)),
    "mean": anything,
    "scale": anything,
    "color_format": text,
    "precision": text,
}

_MODELS: Final = list_of(
    object_of({"config": object_of(_MODEL, required=("name",))}, required=("config",))
)
_NAMED: Final = list_of(map_of(anything, required=("name",)))
_METRICS: Final = object_of(
    {"enable": boolean, "metrics_list": list_of(text)}, required=("enable",)
)

CONFIG: Final = object_of(
    {
        "model_config_list": _MODELS,
        "mediapipe_config_list": list_of(object_of(_GRAPH, required=("name",))),
        "pipeline_config_list": _NAMED,
        "custom_node_library_config_list": _NAMED,
        "custom_loader_config_list": list_of(map_of(anything, required=("config",))),
        "monitoring": object_of({"metrics": _METRICS}, required=("metrics",)),
    }
)

SUBCONFIG: Final = object_of({"model_config_list": _MODELS}, required=("model_config_list",))
