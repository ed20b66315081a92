"""The reader of config.json: every finding, and the frozen result.

The schema is OpenVINO Model Server's (``src/schema.cpp``), with four differences:
``model_config_list`` may be missing; the keys that OpenVINO Model Server's ``--add_to_config``
writes are accepted; entries of kinds that are not served are checked superficially; values of
models that OpenVINO Model Server ignores with a warning are errors. ``python_path``, ``scale`` and
the keys of `servers.config.entries` are graphrt's own.
"""

from __future__ import annotations

import errno
import os
import time
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from calculators.kit.seen_files import SeenFiles
from calculators.kit.tasks import ModelToServe, find_task, task_of_model
from graph_runtime import GraphConfigError
from graph_runtime.errors import did_you_mean
from servers.config.checks import (
    DifferentWords,
    Either,
    IntegerCheck,
    ListOf,
    MapOf,
    NumberCheck,
    ObjectOf,
    OfType,
    OneOf,
    Reads,
    SchemaCheck,
    WordCheck,
    anything,
    boolean,
    nonempty_text,
    shown,
    text,
)
from servers.config.entries import (
    AFTER_UNLOAD,
    AT_START,
    BESIDE,
    CUSTOM_NODE,
    GRAPH_SCALE,
    MAX_NIREQ,
    MODEL_NODE,
    MODEL_SCALE,
    MOST_SLICES,
    ON_DEMAND,
    PERMANENT,
    SUBCONFIG_FILE,
    GraphEntry,
    ModelEntry,
    StoredFiles,
    batch_size_of,
    color_format_of,
    divisors_of,
    entry_of,
    is_remote,
    layout_of,
    model_entry_of,
    numbers_of,
    precision_of,
    python_path_of,
    shape_of,
)
from servers.config.json_text import JsonSyntaxError, JsonText, parse_json
from servers.contract.finding import Finding

#: OpenVINO Model Server's families that are always published.
DEFAULT: Final = (
    "ovms_current_requests",
    "ovms_requests_success",
    "ovms_requests_fail",
    "ovms_request_time_us",
    "ovms_streams",
    "ovms_inference_time_us",
    "ovms_wait_for_infer_req_time_us",
    "ovms_current_graphs",
    "ovms_requests_accepted",
    "ovms_requests_rejected",
    "ovms_responses",
    "ovms_graph_error",
    "ovms_graph_processing_time_us",
    "ovms_graph_loaded",
)
#: OpenVINO Model Server's families that are published only if they are named.
ADDITIONAL: Final = ("ovms_infer_req_queue_size", "ovms_infer_req_active")


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """The object ``monitoring.metrics``, or the flags for it.

    Attributes:
        enable: metrics are published.
        metrics_list: OpenVINO Model Server's families to publish; empty: its default ones. The
            families ``graphrt_...`` are always published.
    """

    enable: bool = True
    metrics_list: tuple[str, ...] = ()

    def shows(self, family: str) -> bool:
        """Return True if this family of OpenVINO Model Server's is published."""
        return family in (self.metrics_list or DEFAULT)


def refusal_of_list(names: Sequence[str]) -> str:
    """Return the error in a ``metrics_list``; "" if there is none."""
    known = (*DEFAULT, *ADDITIONAL)
    for place, name in enumerate(names):
        if name not in known:
            if name.startswith("graphrt_"):
                return (
                    f'Invalid name in metrics_list: "{name}"; the list is of the ovms_ families, '
                    f"and all graphrt_ families are always there"
                )
            return f'Invalid name in metrics_list: "{name}".{did_you_mean(name, known)}'
        if name in names[:place]:
            return f'Invalid name in metrics_list: "{name}" stands twice'
    return ""


#: One path or several.
_PATHS: Final = Either(nonempty_text, str, ListOf(nonempty_text))


class Key(NamedTuple):
    """A key of an object in config.json: the check of its value, and its text in the reference.

    The text of a model's key that is also a flag stands in the declaration of the flag.
    """

    check: SchemaCheck
    text: str = ""


#: The keys of an entry of ``mediapipe_config_list``, which models have too.
GRAPH_KEYS: Final[dict[str, Key]] = {
    "name": Key(nonempty_text, "the name that clients use"),
    "base_path": Key(
        text,
        "the directory, relative to that of config.json, or an address such as s3://bucket/path; "
        "default: the name of the entry",
    ),
    "graph_path": Key(text, "the graph's file, relative to `base_path`; default graph.pbtxt"),
    "subconfig": Key(
        text,
        "a list of plain models for the graph, relative to `base_path`; default subconfig.json",
    ),
    "python_path": Key(_PATHS, "files and directories of calculators for this graph only"),
    "load": Key(
        WordCheck((AT_START, ON_DEMAND)),
        f"`{AT_START}`, the default, or `{ON_DEMAND}`: by the first request",
    ),
    "idle_unload_seconds": Key(
        NumberCheck(0), "overrides `--idle_unload_seconds` for this entry; 0: never"
    ),
    "pinned": Key(boolean, "true: never unloaded for being idle"),
    "group_name": Key(
        text,
        "with `--idle_unload_seconds`, what has this group is loaded and unloaded together, and "
        f"one group is loaded at a time; the group `{PERMANENT}` is pinned",
    ),
    "reload": Key(
        WordCheck((BESIDE, AFTER_UNLOAD)),
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
        "latest": ObjectOf({"num_versions": IntegerCheck(1)}, required=("num_versions",)),
        "specific": ObjectOf(
            {"versions": ListOf(IntegerCheck(1), at_least=1)}, required=("versions",)
        ),
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
    "nireq": Key(IntegerCheck(0, MAX_NIREQ)),
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
    return ObjectOf(checks, required, warns=True)


MODEL_CONFIG: Final = _object_of(GRAPH_KEYS, MODEL_KEYS, required=("name",))
_MODELS: Final = ListOf(ObjectOf({"config": MODEL_CONFIG}, required=("config",), warns=True))
_GRAPHS: Final = ListOf(_object_of(GRAPH_KEYS, GRAPH_ONLY_KEYS, required=("name",)))

_UNSERVED: Final = "not served; the members that are required are checked"


def _unserved(fields: Mapping[str, SchemaCheck], *required: str) -> ObjectOf:
    return ObjectOf({**dict.fromkeys(required, anything), **fields}, required, is_open=True)


_SOURCE: Final = ObjectOf(
    {"node_name": nonempty_text, "data_item": nonempty_text}, ("node_name", "data_item"), warns=True
)
_COUNT: Final = IntegerCheck(-1, MOST_SLICES)
_PIPELINE_NODE: Final = ObjectOf(
    {
        "name": nonempty_text,
        "type": WordCheck((MODEL_NODE, CUSTOM_NODE)),
        "model_name": nonempty_text,
        "version": IntegerCheck(1),
        "library_name": text,
        "params": MapOf(text),
        "demultiply_count": _COUNT,
        "gather_from_node": nonempty_text,
        "inputs": ListOf(MapOf(_SOURCE)),
        "outputs": ListOf(
            ObjectOf({"data_item": text, "alias": text}, ("data_item", "alias"), warns=True)
        ),
    },
    ("name", "type", "inputs", "outputs"),
    warns=True,
)
_PIPELINES: Final = ListOf(
    ObjectOf(
        {
            "name": nonempty_text,
            "inputs": ListOf(nonempty_text),
            "nodes": ListOf(_PIPELINE_NODE),
            "outputs": ListOf(MapOf(_SOURCE)),
            "demultiply_count": _COUNT,
        },
        ("name", "nodes", "inputs", "outputs"),
        warns=True,
    )
)
#: Entries of kinds that are not served, with the members that OpenVINO Model Server requires.
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
    warns=True,
)

#: For editors, which find this schema by it.
_SCHEMA_KEY: Final = Key(text, "the address of a JSON Schema, for editors; not read")

#: The keys of the file itself.
CONFIG_KEYS: Final[dict[str, Key]] = {
    "model_config_list": Key(
        _MODELS, "plain models, each as `config` in an object; one with a graph is served as one"
    ),
    "mediapipe_config_list": Key(_GRAPHS, "graphs"),
    "pipeline_config_list": Key(
        _PIPELINES, "DAG pipelines of models of `model_config_list`, each served as a graph"
    ),
    "custom_node_library_config_list": Key(
        _LIBRARIES, "checked; libraries are not loaded, and pipelines with them are not served"
    ),
    "custom_loader_config_list": Key(_LOADERS, _UNSERVED),
    "python_path": Key(_PATHS, "files and directories of calculators for all graphs"),
    "monitoring": Key(
        ObjectOf({"metrics": _METRICS}, required=("metrics",), warns=True),
        "`metrics`, with `enable` and `metrics_list`",
    ),
    "$schema": _SCHEMA_KEY,
}

CONFIG: Final = _object_of(CONFIG_KEYS)

SUBCONFIG: Final = ObjectOf(
    {"model_config_list": _MODELS, "$schema": text}, required=("model_config_list",)
)


MAX_BYTES: Final = 8 * 1024 * 1024

#: The most graphs and models in one config; each takes some 100 KB even without requests.
MAX_ENTRIES: Final = 20_000

#: A file that does not parse may be half written: number of further attempts, and seconds between.
RETRIES: Final = 3
RETRY_SECONDS: Final = 0.01

#: Keys by which the config.json of a Hugging Face model is recognized.
_OF_A_MODEL: Final = frozenset({"architectures", "model_type", "_class_name"})


class ConfigError(GraphConfigError):
    """The config cannot be used.

    Attributes:
        findings: every error and warning.
        path: the file of the config; None for an object that is not a file.
        seen: the files that were read or missed.
    """

    def __init__(
        self,
        findings: Sequence[Finding],
        path: Path | None = None,
        seen: SeenFiles | None = None,
    ) -> None:
        super().__init__("\n".join(finding.to_text() for finding in findings))
        self.findings = tuple(findings)
        self.path = path
        self.seen = seen or SeenFiles()


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """A config.json.

    Attributes:
        graphs: the graphs to serve, in order, ``mediapipe_config_list`` first, pipelines last.
        models: plain models, first of ``model_config_list``, then of the graphs' subconfigs.
        metrics: None if the config has no ``monitoring``.
        python_path: files and directories of calculators for all graphs; absolute.
        pipelines: the names of the graphs that are made of ``pipeline_config_list``.
        findings: warnings, and errors of subconfigs, whose models are left out.
        seen: the files that were read or missed.
    """

    path: Path
    graphs: tuple[GraphEntry, ...]
    models: tuple[ModelEntry, ...] = ()
    metrics: MetricsConfig | None = None
    findings: tuple[Finding, ...] = ()
    python_path: tuple[Path, ...] = ()
    pipelines: tuple[str, ...] = ()
    seen: SeenFiles = field(default_factory=SeenFiles, compare=False, repr=False)


def read_config(path: str | Path) -> ServerConfig:
    """Read and check a config.json. The files that it names are not opened.

    Raises:
        ConfigError: the config has errors; it holds every finding.
    """
    reading = _Reading(str(path), Path(path))
    document = reading.parse(CONFIG)
    return reading.config_of(document)


def find_graph(directory: Path, name: str | None = None) -> GraphEntry:
    """Return the entry for the graph of a directory, named after it unless ``name`` is given."""
    # Not resolved: a link gives the version its name, as operators mean it to.
    directory = Path(os.path.abspath(directory))
    return entry_of(
        {"name": name or directory.name or "graph", "base_path": str(directory)}, directory
    )


def config_of(entry: GraphEntry) -> ServerConfig:
    """Return a config with one graph and the models that its subconfig lists."""
    reading = _Reading(str(entry.subconfig_path), entry.subconfig_path)
    models: dict[str, ModelEntry] = {}
    reading.take_subconfig(entry, {entry.name: entry}, models)
    return ServerConfig(
        entry.graph_path,
        (entry,),
        tuple(models.values()),
        findings=tuple(reading.findings),
        seen=reading.seen,
    )


def models_of(entry: GraphEntry) -> tuple[tuple[ModelEntry, ...], tuple[Finding, ...]]:
    """Return the models that the subconfig of a graph lists, and all findings in it."""
    config = config_of(entry)
    return config.models, config.findings


def model_of(directory: Path, config: Mapping[str, Any]) -> ModelEntry:
    """Return the entry for ``config``, an object of ``model_config_list``.

    Raises:
        ConfigError: the object has errors; each finding begins with the key.
    """
    findings: list[Finding] = []

    def report(where: str, message: str, hint: str | None, severity: Any = "error") -> None:
        findings.append(Finding(str(directory), severity, f"{where}: {message}", hint=hint))

    MODEL_CONFIG.check(config, "", report)
    if any(each.severity == "error" for each in findings):
        raise ConfigError(findings)
    return model_entry_of(config, directory)


def graph_of(
    item: Mapping[str, Any],
    root: Path,
    seen: SeenFiles,
    task_name: str = "",
    options: Mapping[str, Any] | None = None,
) -> GraphEntry | None:
    """Return the graph of an entry of ``model_config_list``; None if it is a plain model.

    A directory with the model of a task, as `graphrt pull` and optimum-intel write it, has the
    graph that ``--model_path`` makes of it.

    Args:
        task_name: the task of the model; "": its files show it.
        options: the options of the task, by the names of its fields.
    """
    # Here: a config of graphs only needs no plain models.
    from calculators.kit.machine import usable_memory
    from calculators.tensors.openvino.directory_models import versions_in

    if is_remote(str(item.get("base_path", ""))):
        return None  # what it is shows when it is here
    entry = entry_of(item, root, seen)
    if "graph_path" in item or seen.is_file(entry.graph_path):
        return entry
    if not entry.directory.is_dir() or (not task_name and versions_in(entry.directory)):
        return None
    task = find_task(task_name) if task_name else task_of_model(entry.directory)
    if task is None:
        return None
    path = Path(os.path.abspath(entry.directory))
    model = ModelToServe(path=path, models_path="./", memory=usable_memory())
    return replace(entry, graph_text=task.graph(options or {}, model))


def entry_here(
    entry: ModelEntry, path: Path | None, folders: Mapping[int, Path]
) -> GraphEntry | ModelEntry:
    """Return the entry whose files were in a store and are here now.

    Args:
        path: the directory of all files, or the model's file; None if there are versions.
        folders: the folder of each version.
    """
    stored = entry.stored
    assert stored is not None
    if path is None:
        return replace(entry, stored=None, folders=folders)
    item = {**stored.config, "base_path": str(path)}
    if stored.is_whole and not stored.task:
        return entry_of(item, stored.root)
    graph = graph_of(item, stored.root, SeenFiles(), stored.task, stored.options)
    return model_entry_of(item, stored.root) if graph is None else graph


class _Reading:
    """The state of reading one file, with the findings so far and the files seen so far."""

    def __init__(self, shown_path: str, path: Path, seen: SeenFiles | None = None) -> None:
        self.shown_path = shown_path
        self.path = path
        self.seen = seen or SeenFiles()
        self.findings: list[Finding] = []

    def parse(self, check: SchemaCheck) -> JsonText:
        """Return the checked document.

        Raises:
            ConfigError: the file cannot be read, is not JSON, or does not fit the schema.
        """
        for attempt in range(RETRIES + 1):
            try:
                document = parse_json(self._read())
                break
            except JsonSyntaxError as error:
                if attempt == RETRIES:
                    finding = Finding(
                        self.shown_path,
                        "error",
                        f"this is not JSON: {error}",
                        line=error.line,
                        column=error.column,
                    )
                    raise self._error([finding]) from None
                time.sleep(RETRY_SECONDS)
        else:
            raise AssertionError("the last attempt raises")
        value = document.value
        if isinstance(value, dict) and _OF_A_MODEL & set(value):
            raise self._failed(
                "this is a model's own config.json, not a server's",
                "to serve one model, name its directory, with a graph.pbtxt in it",
            )

        def report(where: str, message: str, hint: str | None, severity: Any = "error") -> None:
            self.add(severity, document, where, message, hint)

        check.check(value, "", report)
        for where, place in document.repeated.items():
            self.findings.append(
                Finding(
                    self.shown_path, "error", f"{where}: the key stands twice", *place, hint=None
                )
            )
        if self.has_errors:
            raise self._error(self.findings)
        return document

    def _read(self) -> str:
        try:
            data = self.seen.read(self.path, MAX_BYTES)
        except FileNotFoundError:
            raise self._failed("no such file") from None
        except IsADirectoryError:
            raise self._failed(
                "this is a directory",
                f"name the config in it, such as {self.path / 'config.json'}",
            ) from None
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == errno.EFBIG:
                text = f"more than {MAX_BYTES} bytes, too large for a config"
                raise self._failed(text) from None
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise self._failed(f"cannot be read: {reason}") from None
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise JsonSyntaxError("it is not UTF-8", line, 1) from None

    def _failed(self, message: str, hint: str | None = None) -> ConfigError:
        return self._error([Finding(self.shown_path, "error", message, hint=hint)])

    def _error(self, findings: Sequence[Finding]) -> ConfigError:
        return ConfigError(findings, self.path, self.seen)

    @property
    def has_errors(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)

    def add(
        self, severity: Any, document: JsonText, where: str, message: str, hint: str | None = None
    ) -> None:
        """Add a finding about the value at a path."""
        line, column = document.places.get(where, (None, None))
        text = f"{where}: {message}" if where else message
        self.findings.append(Finding(self.shown_path, severity, text, line, column, hint=hint))

    def _add_unserved(
        self, document: JsonText, where: str, message: str, hint: str | None = None
    ) -> None:
        """Add a warning that the entry at a path is not served."""
        self.add("warning", document, where, message, hint)
        self.findings[-1] = replace(self.findings[-1], is_unserved=True)

    def config_of(self, document: JsonText) -> ServerConfig:
        """Return the frozen config of a checked document.

        Raises:
            ConfigError: it has neither a list nor a ``python_path``, or too many entries.
        """
        value: Mapping[str, Any] = document.value
        # The functions of a python_path may have paths of their own.
        if not any(key.endswith("_config_list") for key in value) and "python_path" not in value:
            self.add(
                "error",
                document,
                "",
                "nothing is listed to be served",
                'list graphs: {"mediapipe_config_list": [{"name": "NAME", "base_path": "DIR"}]}',
            )
            raise self._error(self.findings)
        listed = sum(
            len(value.get(key, ())) for key in ("mediapipe_config_list", "model_config_list")
        )
        if listed > MAX_ENTRIES:
            self.add(
                "error",
                document,
                "",
                f"{listed} graphs and models are listed; a server serves at most {MAX_ENTRIES}",
                "share them between several servers",
            )
            raise self._error(self.findings)
        root = self.path.absolute().parent
        graphs: dict[str, GraphEntry] = {}
        models: dict[str, ModelEntry] = {}
        listed_models = [
            (item, where, graph_of(item, root, self.seen)) for item, where in _models_in(document)
        ]
        plain = {item["name"] for item, _, entry in listed_models if entry is None}
        for index, item in enumerate(value.get("mediapipe_config_list", ())):
            where = f"mediapipe_config_list[{index}]"
            if item["name"] in plain:  # requests look for models first
                self._add_unserved(
                    document,
                    f"{where}.name",
                    f"the name {shown(item['name'])} is taken: the model of that name in "
                    f"model_config_list is served, not this graph",
                    "give each its own name",
                )
            elif self.is_free(item["name"], where, document, ChainMap[str, Any](graphs, models)):
                self._check_residence(item, where, document)
                self._check_home(item, where, document)
                if is_remote(item.get("base_path", "")):
                    stored = StoredFiles(item["base_path"], item, root, is_whole=True)
                    models[item["name"]] = replace(model_entry_of(item, root), stored=stored)
                else:
                    graphs[item["name"]] = entry_of(item, root, self.seen)
        self._take_models(document, listed_models, graphs, models)
        self._report_unserved(document)
        taken = set()
        for entry in graphs.values():
            subconfig = os.path.realpath(entry.subconfig_path)
            if subconfig not in taken:  # graphs may share one
                taken.add(subconfig)
                self.take_subconfig(entry, graphs, models)
        pipelines: dict[str, GraphEntry] = {}
        if value.get("pipeline_config_list"):
            pipelines = self._pipelines_of(document, graphs, models)
        graphs |= pipelines
        return ServerConfig(
            self.path,
            tuple(graphs.values()),
            tuple(models.values()),
            _metrics_of(value),
            tuple(self.findings),
            python_path_of(value, root),
            tuple(pipelines),
            self.seen,
        )

    def _check_home(self, item: Mapping[str, Any], where: str, document: JsonText) -> None:
        for key in ("base_path", "graph_path", "python_path"):
            paths = item.get(key, ())
            for path in [paths] if isinstance(paths, str) else paths:
                if path.startswith("~"):
                    self.add(
                        "warning",
                        document,
                        f"{where}.{key}",
                        f"{shown(path)} begins with ~, which only a shell replaces",
                        f"write the whole path: {shown(os.path.expanduser(path))}",
                    )

    def is_free(
        self, name: str, where: str, document: JsonText, taken: Mapping[str, object]
    ) -> bool:
        if name in taken:
            self._add_unserved(
                document,
                f"{where}.name",
                f"the name {shown(name)} is taken: the first entry of that name is served, not "
                f"this one",
                "give each its own name",
            )
        return name not in taken

    def _take_models(
        self,
        document: JsonText,
        listed: Sequence[tuple[Mapping[str, Any], str, GraphEntry | None]],
        graphs: dict[str, GraphEntry],
        models: dict[str, ModelEntry],
    ) -> None:
        """Add the entries of ``model_config_list``, some of which may be graphs."""
        taken = ChainMap[str, Any](graphs, models)
        for item, where, entry in listed:
            if not self.is_free(item["name"], where, document, taken):
                continue
            if entry is not None:
                self._check_residence(item, where, document)
                graphs[entry.name] = entry
            else:
                models[item["name"]] = self.model_of(item, where, document)

    def model_of(self, item: Mapping[str, Any], where: str, document: JsonText) -> ModelEntry:
        self._check_residence(item, where, document)
        entry = model_entry_of(item, self.path.absolute().parent)
        if entry.refusal:
            self._add_unserved(document, where, f"this model is not served: {entry.refusal}")
        return entry

    def _check_residence(self, item: Mapping[str, Any], where: str, document: JsonText) -> None:
        is_pinned = item.get("pinned") or item.get("group_name") == PERMANENT
        if is_pinned and item.get("idle_unload_seconds"):
            self.add(
                "warning",
                document,
                f"{where}.idle_unload_seconds",
                "it has no effect: what is pinned is never unloaded for being idle",
                "leave out one of both keys",
            )
        if item.get("pinned") and item.get("group_name", PERMANENT) not in ("", PERMANENT):
            self.add(
                "warning",
                document,
                f"{where}.group_name",
                "it has no effect: what is pinned is not unloaded for another group",
                "leave out one of both keys",
            )

    def _report_unserved(self, document: JsonText) -> None:
        for key in ("custom_node_library_config_list", "custom_loader_config_list"):
            if document.value.get(key):
                self.add("warning", document, key, "it has no effect: libraries are not loaded")

    def _pipelines_of(
        self, document: JsonText, graphs: dict[str, GraphEntry], models: dict[str, ModelEntry]
    ) -> dict[str, GraphEntry]:
        """Return the graphs of pipelines. One without a graph is kept, to report its reason."""
        # Here: most configs have none.
        from servers.config.pipelines import PipelineError, PipelineGraph, graph_of_pipeline

        root = self.path.absolute().parent
        found: dict[str, GraphEntry] = {}
        taken = ChainMap[str, Any](graphs, models, found)
        for index, item in enumerate(document.value["pipeline_config_list"]):
            where = f"pipeline_config_list[{index}]"
            name = item["name"]
            if not self.is_free(name, where, document, taken):
                continue
            graph, refusal = PipelineGraph("", {}), ""
            try:
                graph = graph_of_pipeline(item, models)
            except PipelineError as error:
                refusal = "; ".join(filter(None, (str(error), error.hint)))
                place = f"{where}.{error.path}" if error.path else where
                self._add_unserved(
                    document, place, f"the pipeline is not served: {error}", error.hint
                )
            found[name] = GraphEntry(
                name,
                root,
                root / f"{name}.pbtxt",
                root / SUBCONFIG_FILE,
                graph.text,
                tensor_names=graph.tensor_names,
                refusal=refusal,
                needs_models=True,
            )
        return found

    def take_subconfig(
        self, entry: GraphEntry, graphs: Mapping[str, GraphEntry], models: dict[str, ModelEntry]
    ) -> None:
        """Add the models of a graph's subconfig. Errors in it do not affect other graphs."""
        if self.seen.is_dir(entry.subconfig_path) or not self.seen.exists(entry.subconfig_path):
            return
        reading = _Reading(str(entry.subconfig_path), entry.subconfig_path, self.seen)
        try:
            document = reading.parse(SUBCONFIG)
        except ConfigError as error:
            self.findings += error.findings
            return
        taken = ChainMap[str, Any](dict(graphs), models)
        for item, where in _models_in(document):
            model = reading.model_of(item, where, document)
            if models.get(model.name) != model and reading.is_free(
                model.name, where, document, taken
            ):
                models[model.name] = model
        self.findings += reading.findings


def _models_in(document: JsonText) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield every entry of ``model_config_list`` with its path."""
    for index, wrapper in enumerate(document.value.get("model_config_list", ())):
        yield wrapper["config"], f"model_config_list[{index}].config"


def _metrics_of(value: Mapping[str, Any]) -> MetricsConfig | None:
    metrics = value.get("monitoring", {}).get("metrics")
    if metrics is None:
        return None
    return MetricsConfig(metrics["enable"], tuple(metrics.get("metrics_list", ())))
