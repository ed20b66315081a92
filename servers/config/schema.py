"""The schema of config.json: OpenVINO Model Server's (``src/schema.cpp``), with four differences.

``model_config_list`` may be missing; the keys that OpenVINO Model Server's ``--add_to_config``
writes are accepted; entries of kinds that are not served yet are checked superficially; values of
models that OpenVINO Model Server ignores with a warning are errors. ``python_path`` and the keys of
`servers.config.load_policy` are graphrt's own.
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
    """A key of an object in config.json: the check of its value, and its text in the reference.

    The text of a model's key that is also a flag stands in the declaration of the flag.
    """

    check: Check
    text: str = ""


#: The keys of an entry of ``mediapipe_config_list``, which models have too.
GRAPH_KEYS: Final[dict[str, Key]] = {
    "name": Key(nonempty_text, "the name that clients use"),
    "base_path": Key(
        text,
        "the directory, relative to that of config.json; default: the name of the entry",
    ),
    "graph_path": Key(text, "the graph's file, relative to `base_path`; default graph.pbtxt"),
    "subconfig": Key(
        text,
        "a list of plain models for the graph, relative to `base_path`; default subconfig.json",
    ),
    "python_path": Key(_PATHS, "files and directories of calculators for this graph only"),
    "load": Key(
        word(AT_START, ON_DEMAND),
        f"`{AT_START}`, the default, or `{ON_DEMAND}`: by the first request",
    ),
    "idle_unload_seconds": Key(
        number(0), "overrides `--idle_unload_seconds` for this entry; 0: never"
    ),
    "pinned": Key(boolean, "true: never unloaded for being idle"),
    "reload": Key(
        word(BESIDE, AFTER_UNLOAD),
        f"`{BESIDE}`, the default: a changed graph or model is loaded while the old one answers; "
        f"`{AFTER_UNLOAD}`: after the old one is unloaded, if memory does not hold both",
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
    "allow_cache": Key(boolean, "keep the compiled model in `--cache_dir`; default true"),
    "plugin_config": Key(
        map_of(of_type("a string, a number, true or false", str, bool, int, float))
    ),
    "custom_loader_options": Key(
        map_of(anything, required=("loader_name",)), "checked; a model with this key is not served"
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
        _MODELS, "plain models, each as `config` in an object; one with a graph is served as one"
    ),
    "mediapipe_config_list": Key(list_of(object_of(_GRAPH, required=("name",))), "graphs"),
    "pipeline_config_list": Key(_NAMED, "checked, and not served yet"),
    "custom_node_library_config_list": Key(_NAMED, "checked, and not served yet"),
    "custom_loader_config_list": Key(
        list_of(map_of(anything, required=("config",))), "checked, and not served yet"
    ),
    "python_path": Key(_PATHS, "files and directories of calculators for all graphs"),
    "monitoring": Key(
        object_of({"metrics": _METRICS}, required=("metrics",)),
        "`metrics`, with `enable` and `metrics_list`",
    ),
}

CONFIG: Final = object_of({name: key.check for name, key in CONFIG_KEYS.items()})

SUBCONFIG: Final = object_of({"model_config_list": _MODELS}, required=("model_config_list",))
