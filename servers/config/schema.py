"""The schema of config.json: OpenVINO Model Server's (``src/schema.cpp``), with four differences.

``model_config_list`` may be missing; the keys that OpenVINO Model Server's ``--add_to_config``
writes are accepted; entries of kinds that are not served yet are checked superficially; values of
models that OpenVINO Model Server ignores with a warning are errors. ``python_path``, ``scale`` and
the keys of `servers.config.load_policy` are graphrt's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from servers.config.checks import (
    Check,
    DifferentWords,
    Either,
    Integer,
    ListOf,
    MapOf,
    Number,
    ObjectOf,
    OfType,
    OneOf,
    Reads,
    SomeOf,
    Word,
    anything,
    boolean,
    nonempty_text,
    text,
)
from servers.config.load_policy import AFTER_UNLOAD, AT_START, BESIDE, ON_DEMAND
from servers.config.metrics_config import ADDITIONAL, DEFAULT, refusal_of_list
from servers.config.model_values import (
    MAX_NIREQ,
    batch_size_of,
    color_format_of,
    divisors_of,
    layout_of,
    numbers_of,
    precision_of,
    shape_of,
)
from servers.config.scale import GRAPH_SCALE, MODEL_SCALE

#: One path or several.
_PATHS: Final = Either(nonempty_text, str, ListOf(nonempty_text))


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
        Word((AT_START, ON_DEMAND)),
        f"`{AT_START}`, the default, or `{ON_DEMAND}`: by the first request",
    ),
    "idle_unload_seconds": Key(
        Number(0), "overrides `--idle_unload_seconds` for this entry; 0: never"
    ),
    "pinned": Key(boolean, "true: never unloaded for being idle"),
    "reload": Key(
        Word((BESIDE, AFTER_UNLOAD)),
        f"`{BESIDE}`, the default: a changed graph or model is loaded while the old one answers; "
        f"`{AFTER_UNLOAD}`: after the old one is unloaded, if memory does not hold both",
    ),
}

#: The further keys of an entry of ``mediapipe_config_list``.
GRAPH_ONLY_KEYS: Final[dict[str, Key]] = {
    "scale": Key(
        GRAPH_SCALE, "replicas on a cluster, and what each needs, with `--on`; Ray Serve's names"
    ),
}

_VERSION_POLICY: Final = OneOf(
    {
        "all": ObjectOf({}),
        "latest": ObjectOf({"num_versions": Integer(1)}, required=("num_versions",)),
        "specific": ObjectOf({"versions": ListOf(Integer(1), at_least=1)}, required=("versions",)),
    }
)

_SHAPE: Final = Reads(shape_of, "a string or a list of lengths", (str, list))
_LAYOUT: Final = Reads(layout_of, "a string", (str,))
_NUMBERS: Final = Reads(numbers_of, "a number, a string or a list", (int, float, str, list))
_DIVISORS: Final = Reads(divisors_of, "a number, a string or a list", (int, float, str, list))

#: The further keys of an entry of ``model_config_list``.
MODEL_KEYS: Final[dict[str, Key]] = {
    "batch_size": Key(Reads(batch_size_of, "a number or a string", (int, str))),
    "model_version_policy": Key(_VERSION_POLICY),
    "shape": Key(Either(MapOf(_SHAPE), dict, _SHAPE)),
    "layout": Key(Either(MapOf(_LAYOUT), dict, _LAYOUT)),
    "nireq": Key(Integer(0, MAX_NIREQ)),
    "target_device": Key(text, "CPU, GPU, ...; default CPU"),
    "allow_cache": Key(boolean, "keep the compiled model in `--cache_dir`; default true"),
    "plugin_config": Key(
        MapOf(OfType("a string, a number, true or false", (str, bool, int, float)))
    ),
    "custom_loader_options": Key(
        MapOf(anything, required=("loader_name",)), "checked; a model with this key is not served"
    ),
    "mean": Key(_NUMBERS),
    "scale": Key(
        Either(MODEL_SCALE, dict, _DIVISORS),
        "divides inputs after the mean is subtracted; an object: replicas, as of a graph",
    ),
    "color_format": Key(Reads(color_format_of, "a string", (str,))),
    "precision": Key(Reads(precision_of, "a string", (str,))),
}


def _object_of(*tables: Mapping[str, Key], required: tuple[str, ...] = ()) -> ObjectOf:
    checks = {name: key.check for table in tables for name, key in table.items()}
    return ObjectOf(checks, required)


MODEL_CONFIG: Final = _object_of(GRAPH_KEYS, MODEL_KEYS, required=("name",))
_MODELS: Final = ListOf(ObjectOf({"config": MODEL_CONFIG}, required=("config",)))
_GRAPHS: Final = ListOf(_object_of(GRAPH_KEYS, GRAPH_ONLY_KEYS, required=("name",)))

_UNSERVED: Final = "not served yet; the members that are required are checked"


def _unserved(fields: Mapping[str, Check], *required: str) -> SomeOf:
    return SomeOf({**dict.fromkeys(required, anything), **fields}, required)


#: Entries of kinds that are not served, with the members that OpenVINO Model Server requires.
_PIPELINES: Final = ListOf(
    _unserved(
        {
            "nodes": ListOf(_unserved({}, "name", "type", "inputs", "outputs")),
            "inputs": ListOf(anything),
            "outputs": ListOf(anything),
        },
        "name",
        "nodes",
        "inputs",
        "outputs",
    )
)
_LIBRARIES: Final = ListOf(_unserved({}, "name", "base_path"))
_LOADERS: Final = ListOf(
    _unserved({"config": _unserved({}, "loader_name", "library_path")}, "config")
)

_METRICS: Final = ObjectOf(
    {
        "enable": boolean,
        "metrics_list": DifferentWords((*DEFAULT, *ADDITIONAL), refusal_of_list),
    },
    required=("enable",),
)

#: For editors, which find this schema by it.
_SCHEMA_KEY: Final = Key(text, "the address of a JSON Schema, for editors; not read")

#: The keys of the file itself.
CONFIG_KEYS: Final[dict[str, Key]] = {
    "model_config_list": Key(
        _MODELS, "plain models, each as `config` in an object; one with a graph is served as one"
    ),
    "mediapipe_config_list": Key(_GRAPHS, "graphs"),
    "pipeline_config_list": Key(_PIPELINES, _UNSERVED),
    "custom_node_library_config_list": Key(_LIBRARIES, _UNSERVED),
    "custom_loader_config_list": Key(_LOADERS, _UNSERVED),
    "python_path": Key(_PATHS, "files and directories of calculators for all graphs"),
    "monitoring": Key(
        ObjectOf({"metrics": _METRICS}, required=("metrics",)),
        "`metrics`, with `enable` and `metrics_list`",
    ),
    "$schema": _SCHEMA_KEY,
}

CONFIG: Final = _object_of(CONFIG_KEYS)

SUBCONFIG: Final = ObjectOf(
    {"model_config_list": _MODELS, "$schema": text}, required=("model_config_list",)
)
