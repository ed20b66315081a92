"""What may stand in a config.json: OpenVINO Model Server's schema (``src/schema.cpp``).

Looser in three places: ``model_config_list`` may be missing, the keys that its own
``--add_to_config`` writes are accepted, and what is not served yet is only looked at from outside.
``python_path`` and the keys of `servers.config.load_policy` are graphrt's own.
Stricter in one: values of models that it would ignore with a warning are errors.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

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


class Key(NamedTuple):
    """A key of an object in config.json: the check of its value, and the words of the reference.

    A model's key that is a flag too has its words in the declaration of the flag.
    """

    check: Check
    text: str = ""


#: The keys of an entry of ``mediapipe_config_list``, which models have too.
GRAPH_KEYS: Final[dict[str, Key]] = {
    "name": Key(nonempty_text, "the name that clients use"),
    "base_path": Key(
        text,
        "the directory, from that of config.json; a directory of the entry's name when it is not "
        "given",
    ),
    "graph_path": Key(text, "the graph's file, from `base_path`; default graph.pbtxt"),
    "subconfig": Key(
        text,
        "a file that lists plain models for the graph, from `base_path`; default subconfig.json",
    ),
    "python_path": Key(_PATHS, "files and directories of calculators that only this graph has"),
    "load": Key(
        word(AT_START, ON_DEMAND),
        f"`{AT_START}`, the default, or `{ON_DEMAND}`: with the first request",
    ),
    "idle_unload_seconds": Key(number(0), "as `--idle_unload_seconds`, for this entry; 0 is never"),
    "pinned": Key(boolean, "true: never unloaded for being idle"),
    "reload": Key(
        word(BESIDE, AFTER_UNLOAD),
        f"`{BESIDE}`, the default: a changed one is loaded while the old one answers; "
        f"`{AFTER_UNLOAD}`: when the old one is gone, where memory does not hold both",
    ),
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

#: The further keys of an entry of ``model_config_list``.
MODEL_KEYS: Final[dict[str, Key]] = {
    "batch_size": Key(reads(batch_size_of, "a number or a string", int, str)),
    "model_version_policy": Key(_VERSION_POLICY),
    "shape": Key(either(map_of(_SHAPE), dict, _SHAPE)),
    "layout": Key(either(map_of(_LAYOUT), dict, _LAYOUT)),
    "nireq": Key(integer(0, MAX_NIREQ)),
    "target_device": Key(text, "CPU, GPU, ...; default CPU"),
    "allow_cache": Key(boolean, "false: not kept in `--cache_dir`; default true"),
    "plugin_config": Key(
        map_of(of_type("a string, a number, true or false", str, bool, int, float))
    ),
    "custom_loader_options": Key(
        map_of(anything, required=("loader_name",)), "checked; a model that has them is not served"
    ),
    "mean": Key(_NUMBERS),
    "scale": Key(_NUMBERS),
    "color_format": Key(reads(color_format_of, "a string", str)),
    "precision": Key(reads(precision_of, "a string", str)),
}

_GRAPH: Final = {name: key.check for name, key in GRAPH_KEYS.items()}
_MODEL: Final = _GRAPH | {name: key.check for name, key in MODEL_KEYS.items()}

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

#: The keys of the file itself.
CONFIG_KEYS: Final[dict[str, Key]] = {
    "model_config_list": Key(
        _MODELS, "plain models, each as `config` in an object; one with a graph is served as graph"
    ),
    "mediapipe_config_list": Key(list_of(object_of(_GRAPH, required=("name",))), "graphs"),
    "pipeline_config_list": Key(_NAMED, "checked, and not served yet"),
    "custom_node_library_config_list": Key(_NAMED, "checked, and not served yet"),
    "custom_loader_config_list": Key(
        list_of(map_of(anything, required=("config",))), "checked, and not served yet"
    ),
    "python_path": Key(_PATHS, "files and directories of calculators that all graphs have"),
    "monitoring": Key(
        object_of({"metrics": _METRICS}, required=("metrics",)),
        "`metrics`, with `enable` and `metrics_list`",
    ),
}

CONFIG: Final = object_of({name: key.check for name, key in CONFIG_KEYS.items()})

SUBCONFIG: Final = object_of({"model_config_list": _MODELS}, required=("model_config_list",))
