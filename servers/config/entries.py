"""Entries of a config: graphs and plain models to serve, and the parsers of their keys.

``load``, ``idle_unload_seconds``, ``pinned``, ``group_name`` and ``reload`` say when an entry is
loaded and unloaded. ``scale`` is the number of replicas on a cluster, and their resources, with Ray
Serve's names; on one machine, without ``--on``, it has no effect.

Shapes, layouts, numbers and conversions of a model are strings, whose forms are OpenVINO Model
Server's (``shape.cpp``, ``layout.cpp``, ``modelconfig.cpp``). Every function raises `ValueError`
whose text says what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from calculators.kit.examples import find_path
from calculators.kit.seen_files import SeenFiles
from calculators.tensors.openvino.model_settings import (
    ANY_INPUT,
    ANY_LENGTH,
    Conversion,
    Dimension,
    ModelSettings,
)
from servers.config.checks import (
    IntegerCheck,
    MapOf,
    NumberCheck,
    ObjectOf,
    Reporter,
    Schema,
    SchemaCheck,
    WordCheck,
)
from servers.config.json_text import member

#: Replicas of one graph; Ray Serve is not made for more.
_MOST_REPLICAS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Scale:
    """The replicas of one graph or model.

    Attributes:
        min_replicas: the least; 0: none while there are no requests.
        max_replicas: the most.
        initial_replicas: the number to start with; None: ``min_replicas``, and at least 1.
        target_ongoing_requests: the requests per replica that the number of replicas follows.
        max_ongoing_requests: the most requests that one replica has at a time; others wait.
        max_queued_requests: the most requests that wait; more get 429.
        upscale_delay_s, downscale_delay_s: how long the load has to ask for more replicas, or for
            fewer, until there are.
        num_cpus, num_gpus: what a replica reserves on its node.
        memory: bytes that a replica reserves on its node; 0: none.
        resources: amounts of the cluster's own resources that it reserves, by name.
        nodes: the replicas of nodes that have their own, by the names of the nodes; of a graph.
    """

    min_replicas: int = 1
    max_replicas: int = 1
    initial_replicas: int | None = None
    target_ongoing_requests: float = 16.0
    max_ongoing_requests: int = 256
    max_queued_requests: int = 1024
    upscale_delay_s: float = 2.0
    downscale_delay_s: float = 60.0
    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    nodes: Mapping[str, Scale] = field(default_factory=dict)

    @property
    def first_replicas(self) -> int:
        """The number of replicas to start with: one at least, so that loading is tried."""
        first = self.min_replicas if self.initial_replicas is None else self.initial_replicas
        return max(first, 1)

    @property
    def demands(self) -> dict[str, float]:
        """The amounts that one replica needs of a node, by Ray's names of resources."""
        named = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": float(self.memory)}
        return {name: amount for name, amount in (named | dict(self.resources)).items() if amount}


_COUNT: Final = IntegerCheck(1, _MOST_REPLICAS)
_KEYS: Final[dict[str, SchemaCheck]] = {
    "min_replicas": IntegerCheck(0, _MOST_REPLICAS),
    "max_replicas": _COUNT,
    "initial_replicas": _COUNT,
    "target_ongoing_requests": NumberCheck(0.1),
    "max_ongoing_requests": IntegerCheck(1),
    "max_queued_requests": IntegerCheck(0),
    "upscale_delay_s": NumberCheck(0),
    "downscale_delay_s": NumberCheck(0),
    "num_cpus": NumberCheck(0),
    "num_gpus": NumberCheck(0),
    "memory": IntegerCheck(0),
    "resources": MapOf(NumberCheck(0)),
}


#: A node's replicas: its own. The word leaves room for other places.
_PLACE: Final = "place"
_NODE_KEYS: Final[dict[str, SchemaCheck]] = {_PLACE: WordCheck(("own",)), **_KEYS}


@dataclass(frozen=True, slots=True)
class ScaleCheck:
    """Objects of the key ``scale``.

    Attributes:
        fields: the keys that it may have.
        required: those that it must have.
    """

    fields: Mapping[str, SchemaCheck]
    required: tuple[str, ...] = ()

    def check(self, value: Any, path: str, report: Reporter) -> None:
        errors: list[str] = []

        def noted(where: str, message: str, hint: str | None, _: str = "error") -> None:
            errors.append(where)
            report(where, message, hint)

        ObjectOf(self.fields, self.required).check(value, path, noted)
        if errors:
            return
        scale = scale_of({"scale": value})
        if scale.min_replicas > scale.max_replicas:
            report(
                member(path, "min_replicas"),
                f"{scale.min_replicas} is more than max_replicas, which is {scale.max_replicas}",
                None,
            )
        elif scale.first_replicas > scale.max_replicas:
            report(
                member(path, "initial_replicas"),
                f"{scale.first_replicas} is more than max_replicas, which is {scale.max_replicas}",
                None,
            )

    def json_schema(self) -> Schema:
        return ObjectOf(self.fields, self.required).json_schema()


#: The key ``scale`` of a plain model, and that of a graph.
MODEL_SCALE: Final = ScaleCheck(_KEYS)
GRAPH_SCALE: Final = ScaleCheck(
    {**_KEYS, "nodes": MapOf(ScaleCheck(_NODE_KEYS, required=(_PLACE,)))}
)


def scale_of(config: Mapping[str, Any]) -> Scale:
    """Return the scale of a checked config object.

    A number that is not given follows the other: 2 at least means 2 at most. A plain model may have
    numbers under the key instead, by which OpenVINO Model Server divides its inputs.
    """
    value = config.get("scale")
    given = dict(value) if isinstance(value, dict) else {}
    given.pop(_PLACE, None)
    given["nodes"] = {
        name: scale_of({"scale": each}) for name, each in given.get("nodes", {}).items()
    }
    given.setdefault(
        "max_replicas", max(given.get("min_replicas", 1), given.get("initial_replicas", 1), 1)
    )
    return Scale(**given)


AT_START: Final = "at_start"
ON_DEMAND: Final = "on_demand"

BESIDE: Final = "beside"
AFTER_UNLOAD: Final = "after_unload"

#: The group whose members are pinned, as OpenVINO Model Server names it.
PERMANENT: Final = "permanent"


@dataclass(frozen=True, slots=True)
class LoadPolicy:
    """The rules by which one graph or model is loaded and unloaded.

    Attributes:
        is_on_demand: the first request loads it, not the start of the server.
        idle_seconds: seconds without a request after which it is unloaded; the next request loads
            it again. 0: never. None: the server's default.
        is_pinned: it is never unloaded for being idle.
        group: what is loaded and unloaded with it, and without the members of other groups; "" for
            none. While nothing is unloaded for being idle, groups have no effect.
        unloads_first: a changed version is loaded after the old one is unloaded, because memory
            does not hold both. Requests wait meanwhile; if loading fails, nothing answers.
    """

    is_on_demand: bool = False
    idle_seconds: float | None = None
    is_pinned: bool = False
    group: str = ""
    unloads_first: bool = False

    def idle_limit(self, default: float) -> float:
        """Return the idle seconds in effect, 0 for never. ``default`` is the server's setting."""
        if self.is_pinned:
            return 0.0
        return default if self.idle_seconds is None else self.idle_seconds


def residence_of(config: Mapping[str, Any]) -> LoadPolicy:
    """Return the policy of a checked config object."""
    group = config.get("group_name", "")
    is_pinned = bool(config.get("pinned", False)) or group == PERMANENT
    return LoadPolicy(
        config.get("load", AT_START) == ON_DEMAND,
        config.get("idle_unload_seconds"),
        is_pinned,
        "" if is_pinned else group,
        config.get("reload", BESIDE) == AFTER_UNLOAD,
    )


#: The types of a pipeline's nodes, and the most slices of a tensor in it.
MODEL_NODE: Final = "DL model"
CUSTOM_NODE: Final = "custom"
MOST_SLICES: Final = 10_000

GRAPH_FILE = "graph.pbtxt"
SUBCONFIG_FILE = "subconfig.json"


@dataclass(frozen=True, slots=True)
class GraphEntry:
    """One served graph.

    Attributes:
        name: the name that clients use.
        directory: the base path, absolute. Relative paths in the graph's options start here.
        graph_path: the graph's file, absolute.
        subconfig_path: the list of the models of its session calculators; need not exist.
        graph_text: the text of a graph that was made; ``graph_path`` is no file then.
        python_path: files and directories of calculators for this graph only; absolute.
        tensor_names: the clients' names of inputs and outputs, by stream, where they differ from
            the stream's.
        refusal: why the graph cannot be served; "" if it can.
        needs_models: it is not loaded while a model of its sessions is not; else requests fail.
        residence: when the graph is in memory. Not compared: a change of it needs no reload.
        scale: its replicas on a cluster. Not compared: on one machine it has no effect.
    """

    name: str
    directory: Path
    graph_path: Path
    subconfig_path: Path
    graph_text: str | None = None
    python_path: tuple[Path, ...] = ()
    tensor_names: Mapping[str, str] = field(default_factory=dict)
    refusal: str = ""
    needs_models: bool = False
    residence: LoadPolicy = field(default_factory=LoadPolicy, compare=False)
    scale: Scale = field(default_factory=Scale, compare=False)


def entry_of(config: Mapping[str, Any], root: Path, seen: SeenFiles | None = None) -> GraphEntry:
    """Return the entry for a checked config object; ``root`` is the directory of config.json.

    ``seen`` remembers which files decided.

    Paths are OpenVINO Model Server's (``mediapipegraphconfig.cpp``): the base path is
    ``<root>/<name>`` unless given, and the others start there.
    """
    seen = seen or SeenFiles()
    directory = _base_path(config, root)
    graph_path = directory / config.get("graph_path", GRAPH_FILE)
    if "graph_path" not in config and not seen.exists(graph_path):
        # The form of model repositories with one directory per version.
        versioned = directory / "1" / GRAPH_FILE
        if seen.is_file(versioned):
            directory, graph_path = versioned.parent, versioned
    return GraphEntry(
        config["name"],
        directory,
        graph_path,
        directory / config.get("subconfig", SUBCONFIG_FILE),
        python_path=python_path_of(config, root),
        residence=residence_of(config),
        scale=scale_of(config),
    )


def _base_path(config: Mapping[str, Any], root: Path) -> Path:
    """Return the folder of a graph or model: as given, else of its name."""
    given = config.get("base_path")
    return find_path(str(given), root) if given else root / config["name"]


def python_path_of(config: Mapping[str, Any], root: Path) -> tuple[Path, ...]:
    """Return the paths under the key ``python_path``, one or several, resolved from ``root``."""
    paths = config.get("python_path", ())
    return tuple(find_path(path, root) for path in ([paths] if isinstance(paths, str) else paths))


MAX_NIREQ: Final = 100_000
_MAX_LENGTH: Final = 2**31 - 1

#: Element types by the names of OpenVINO Model Server and of OpenVINO.
_PRECISIONS: Final[Mapping[str, str]] = {
    "FP64": "f64",
    "FP32": "f32",
    "FP16": "f16",
    "BF16": "bf16",
    **{f"INT{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
_COLOR_FORMATS: Final[Mapping[str, str]] = {
    "RGB": "RGB",
    "BGR": "BGR",
    "GRAY": "GRAY",
    "NV12": "NV12_SINGLE_PLANE",
    "I420": "I420_SINGLE_PLANE",
}
_DIMENSION: Final = re.compile(r"-1|\d{1,10}(:\d{1,10})?")
_LAYOUT: Final = re.compile(r"[NCHWD?]*(\.\.\.)?[NCHWD?]*")


def shape_of(value: str | list[int]) -> tuple[Dimension, ...] | None:
    """Parse ``(1,3,-1,2:8)``, or a list of lengths. None for ``auto``."""
    if isinstance(value, list):
        return tuple(_dimension(str(length)) for length in value)
    text = _without_spaces(value)
    if text == "auto":
        return None
    if len(text) < 3 or text[0] != "(" or text[-1] != ")":
        raise ValueError(
            'a shape is "(1,3,224,224)", with -1 or 2:8 for lengths that vary, or auto'
        )
    return tuple(_dimension(word) for word in text[1:-1].removesuffix(",").split(","))


def batch_size_of(value: int | str) -> Dimension | None:
    """Parse a number, ``auto``, ``-1`` or a range ``2:8``. None for "" and 0: no change."""
    text = _without_spaces(str(value))
    if text in ("", "0"):
        return None
    return ANY_LENGTH if text == "auto" else _dimension(text)


def layout_of(text: str) -> Conversion:
    """Parse ``NHWC:NCHW``, the layouts of clients and of the model; ``NCHW`` alone is both."""
    words = _without_spaces(text).upper().split(":")
    if len(words) > 2 or not all(map(_is_layout, words)):
        raise ValueError(
            "a layout is NHWC:NCHW, what clients send and what the model takes, of the letters N, "
            "C, H, W and D, ? for an axis and ... for several"
        )
    return words[0], words[-1]


def precision_of(text: str) -> Conversion:
    """Parse ``uint8:fp32``, the element types of clients and of the model."""
    return _pair(text, _PRECISIONS, "a precision is uint8:fp32, what clients send and what")


def color_format_of(text: str) -> Conversion:
    """Parse ``RGB:BGR``, the formats of the model and of clients: the model's comes first here."""
    taken, sent = _pair(text, _COLOR_FORMATS, "a color format is RGB:BGR, what the model takes and")
    return sent, taken


def numbers_of(value: Any) -> tuple[float, ...] | float:
    """Parse a number, or several as a list, ``[1,2,3]`` or ``(1,2,3)``."""
    if isinstance(value, str):
        text = _without_spaces(value)
        if text[:1] + text[-1:] in ("[]", "()"):
            value = text[1:-1].split(",")
    try:
        return tuple(map(_number, value)) if isinstance(value, list) else _number(value)
    except (TypeError, ValueError):
        raise ValueError("a number is needed, or one per channel: [123.7,116.3,103.5]") from None


def divisors_of(value: Any) -> tuple[float, ...] | float:
    """Parse numbers as `numbers_of`, none of which is 0."""
    numbers = numbers_of(value)
    if 0 in (numbers if isinstance(numbers, tuple) else (numbers,)):
        raise ValueError("inputs are divided by it, so it must not be 0")
    return numbers


def _dimension(text: str) -> Dimension:
    if not _DIMENSION.fullmatch(text):
        raise ValueError(f"{text[:20]!r} is no length: write a number, -1 for any, or a range 2:8")
    if text == "-1":
        return ANY_LENGTH
    low, _, high = text.partition(":")
    found = Dimension(int(low), int(high or low))
    if high and found.low >= int(high):
        raise ValueError(f"the range {text} must rise")
    if int(high or low) > _MAX_LENGTH:
        raise ValueError(f"the length {high or low} is more than {_MAX_LENGTH}")
    return found


def _is_layout(text: str) -> bool:
    letters = text.replace("?", "").replace("...", "")
    return bool(text and _LAYOUT.fullmatch(text)) and len(set(letters)) == len(letters)


def _pair(text: str, known: Mapping[str, str], form: str) -> Conversion:
    words = _without_spaces(text).upper().split(":")
    if len(words) != 2 or not all(word in known for word in words):
        raise ValueError(f"{form} the other side has, of {', '.join(known)}")
    return known[words[0]], known[words[1]]


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError
    number = float(value)
    if number in (float("inf"), float("-inf")) or number != number:
        raise ValueError
    return number


def _without_spaces(text: str) -> str:
    return "".join(text.split())


#: Schemes of a base_path in a remote store, as in `s3://bucket/model`.
_REMOTE = ("s3://", "gs://", "az://", "azfs://")


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """The ``specific`` versions, or else the highest ``latest`` ones; None: all versions."""

    latest: int | None = 1
    specific: tuple[int, ...] = ()

    def chosen(self, versions: Iterable[int]) -> list[int]:
        """Return the versions to serve, in ascending order, of the ``versions`` that exist.

        Specific versions are returned whether they exist or not.
        """
        if self.specific:
            return sorted(set(self.specific))
        found = sorted(versions)
        return found if self.latest is None else found[-self.latest :]


def _policy_of(config: Mapping[str, Any] | None) -> VersionPolicy:
    """Return the policy of a checked ``model_version_policy``."""
    if not config:
        return VersionPolicy()
    if "all" in config:
        return VersionPolicy(latest=None)
    if "specific" in config:
        return VersionPolicy(specific=tuple(config["specific"]["versions"]))
    return VersionPolicy(latest=config["latest"]["num_versions"])


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The files of an entry that are in a store elsewhere. What they are shows when they are here.

    Attributes:
        address: ``s3://bucket/path`` and its kind.
        config: the object of the entry in config.json.
        root: the directory of config.json.
        is_whole: it is a graph or the model of a task: folders with numbers are no versions of it.
        task: the name of the task that its model is served with; "": the files show it.
        options: the options of the task, by the names of its fields.
    """

    address: str
    config: Mapping[str, Any]
    root: Path
    is_whole: bool = False
    task: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One served model.

    Attributes:
        name: the name that clients and graphs use.
        base_path: a folder with a folder per version, or the file of the one version; absolute.
        policy: the choice of versions.
        settings: the settings of every version.
        is_cached: the compiled model may be kept in the server's cache.
        refusal: why the model cannot be served; "" if it can.
        stored: where its files are if they are not here; it may be a graph then.
        folders: the folder of each version if they are not below ``base_path``. Not compared: a
            model with other versions is the same model.
        residence: when the model is in memory. Not compared: a change of it needs no reload.
        scale: its replicas on a cluster. Not compared: on one machine it has no effect.
    """

    name: str
    base_path: Path
    policy: VersionPolicy = field(default_factory=VersionPolicy)
    settings: ModelSettings = field(default_factory=ModelSettings)
    is_cached: bool = True
    refusal: str = ""
    stored: StoredFiles | None = None
    folders: Mapping[int, Path] = field(default_factory=dict, compare=False)
    residence: LoadPolicy = field(default_factory=LoadPolicy, compare=False)
    scale: Scale = field(default_factory=Scale, compare=False)


def is_remote(path: str) -> bool:
    """Return True if a path is that of a store elsewhere."""
    return path.startswith(_REMOTE)


def model_entry_of(config: Mapping[str, Any], root: Path) -> ModelEntry:
    """Return the entry for a checked config object; ``root`` is the directory of config.json."""
    base_path = str(config.get("base_path") or config["name"])
    stored = StoredFiles(base_path, config, root) if is_remote(base_path) else None
    refusal = "custom loaders are not served" if config.get("custom_loader_options") else ""
    return ModelEntry(
        config["name"],
        _base_path(config, root),
        _policy_of(config.get("model_version_policy")),
        _settings_of(config),
        bool(config.get("allow_cache", True)),
        refusal,
        stored,
        residence=residence_of(config),
        scale=scale_of(config),
    )


def _settings_of(config: Mapping[str, Any]) -> ModelSettings:
    return ModelSettings(
        target_device=config.get("target_device") or "CPU",
        plugin_config=dict(config.get("plugin_config", {})),
        nireq=config.get("nireq", 0),
        shapes={name: shape_of(value) for name, value in _by_name(config.get("shape"))},
        batch_size=batch_size_of(config.get("batch_size", "")),
        layouts={name: layout_of(value) for name, value in _by_name(config.get("layout"))},
        precision=precision_of(config["precision"]) if config.get("precision") else None,
        color_format=color_format_of(config["color_format"])
        if config.get("color_format")
        else None,
        mean=numbers_of(config["mean"]) if config.get("mean", "") != "" else None,
        scale=None if _is_of_replicas(config) else numbers_of(config["scale"]),
    )


def _is_of_replicas(config: Mapping[str, Any]) -> bool:
    """True if the key ``scale`` has no numbers: it is an object about replicas, or not there."""
    return config.get("scale", "") == "" or isinstance(config["scale"], dict)


def _by_name(value: Any) -> list[tuple[str, Any]]:
    """Return values by the names of inputs. A value without a name is for the only input."""
    if isinstance(value, dict):
        return [(name, each) for name, each in value.items() if each]
    return [(ANY_INPUT, value)] if value else []
