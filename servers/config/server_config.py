"""Reading config.json: every finding, and the frozen result."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from graph_runtime import GraphConfigError
from servers.config import schema
from servers.config.checks import Check, shown
from servers.config.entry import GRAPH_FILE, GraphEntry, entry_of
from servers.config.json_text import JsonSyntaxError, JsonText, parse_json
from servers.finding import Finding

MAX_BYTES: Final = 8 * 1024 * 1024

#: A file that does not parse may be half written: how often it is read again, and after how long.
RETRIES: Final = 3
RETRY_SECONDS: Final = 0.01

#: What a model's own config.json, as Hugging Face has them, is told by.
_OF_A_MODEL: Final = frozenset({"architectures", "model_type", "_class_name"})

#: base_path may name a store elsewhere, as `s3://bucket/model`.
_REMOTE: Final = ("s3://", "gs://", "az://", "azfs://")


class ConfigError(GraphConfigError):
    """The config cannot be used. ``findings`` holds every error, and the warnings."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(finding.to_text() for finding in findings))
        self.findings = tuple(findings)


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """``monitoring.metrics``. ``metrics_list``: names beside those that are always there."""

    enable: bool = False
    metrics_list: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """A config.json.

    Attributes:
        graphs: what is served, in order, ``mediapipe_config_list`` first.
        plain_models: names of the models without a graph, which are not served yet.
        metrics: None where the config does not speak of them.
        findings: the warnings.
    """

    path: Path
    graphs: tuple[GraphEntry, ...]
    plain_models: tuple[str, ...] = ()
    metrics: MetricsConfig | None = None
    findings: tuple[Finding, ...] = ()


def read_config(path: str | Path) -> ServerConfig:
    """Read and check a config.json; the files that it names are not opened.

    Raises:
        ConfigError: with every finding.
    """
    reading = _Reading(str(path), Path(path))
    document = reading.parse(schema.CONFIG)
    return reading.config_of(document)


def find_graph(directory: Path, name: str | None = None) -> GraphEntry:
    """The graph of one directory, under the directory's name unless another is given."""
    # Not resolved: a link's own name is the one that was chosen.
    directory = Path(os.path.abspath(directory))
    return entry_of(
        {"name": name or directory.name or "graph", "base_path": str(directory)}, directory
    )


class _Reading:
    """One reading of one file: what was found so far."""

    def __init__(self, shown_path: str, path: Path) -> None:
        self.shown_path = shown_path
        self.path = path
        self.findings: list[Finding] = []

    def parse(self, check: Check) -> JsonText:
        """The checked document.

        Raises:
            ConfigError: it cannot be read, is not JSON, or not of the schema.
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
                    raise ConfigError([finding]) from None
                time.sleep(RETRY_SECONDS)
        else:
            raise AssertionError("the last attempt raises")
        value = document.value
        if isinstance(value, dict) and _OF_A_MODEL & set(value):
            raise self._failed(
                "this is a model's own config.json, not a server's",
                "to serve one model, name its directory, with a graph.pbtxt in it",
            )

        def report(where: str, message: str, hint: str | None) -> None:
            self.add("error", document, where, message, hint)

        check(value, "", report)
        for where, place in document.repeated.items():
            self.findings.append(
                Finding(
                    self.shown_path, "error", f"{where}: the key stands twice", *place, hint=None
                )
            )
        if self.has_errors:
            raise ConfigError(self.findings)
        return document

    def _read(self) -> str:
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            raise self._failed("no such file") from None
        except IsADirectoryError:
            raise self._failed(
                "this is a directory",
                f"name the config in it, such as {self.path / 'config.json'}",
            ) from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise self._failed(f"cannot be read: {reason}") from None
        if len(data) > MAX_BYTES:
            raise self._failed(f"more than {MAX_BYTES} bytes, too large for a config")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise JsonSyntaxError("it is not UTF-8", line, 1) from None

    def _failed(self, message: str, hint: str | None = None) -> ConfigError:
        return ConfigError([Finding(self.shown_path, "error", message, hint=hint)])

    @property
    def has_errors(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)

    def add(
        self, severity: Any, document: JsonText, where: str, message: str, hint: str | None = None
    ) -> None:
        """A finding about the value at a path."""
        line, column = document.places.get(where, (None, None))
        text = f"{where}: {message}" if where else message
        self.findings.append(Finding(self.shown_path, severity, text, line, column, hint=hint))

    def config_of(self, document: JsonText) -> ServerConfig:
        """The frozen config of a checked document.

        Raises:
            ConfigError: it says nothing at all.
        """
        value: Mapping[str, Any] = document.value
        if not any(key.endswith("_config_list") for key in value):
            self.add(
                "error",
                document,
                "",
                "nothing is listed to be served",
                'list graphs: {"mediapipe_config_list": [{"name": "NAME", "base_path": "DIR"}]}',
            )
            raise ConfigError(self.findings)
        root = self.path.absolute().parent
        graphs: dict[str, GraphEntry] = {}
        plain: dict[str, str] = {}
        for index, item in enumerate(value.get("mediapipe_config_list", ())):
            where = f"mediapipe_config_list[{index}]"
            if self._is_free(item["name"], where, document, graphs):
                graphs[item["name"]] = entry_of(item, root)
        for index, wrapper in enumerate(value.get("model_config_list", ())):
            item, where = wrapper["config"], f"model_config_list[{index}].config"
            name = item["name"]
            if not self._is_free(name, where, document, {**graphs, **plain}):
                continue
            entry = entry_of(item, root)
            if _is_graph(item, entry):
                graphs[name] = entry
            else:
                plain[name] = where
        self._report_unserved(document, plain)
        for entry in graphs.values():
            self._check_subconfig(entry)
        return ServerConfig(
            self.path,
            tuple(graphs.values()),
            tuple(plain),
            _metrics_of(value),
            tuple(self.findings),
        )

    def _is_free(
        self, name: str, where: str, document: JsonText, taken: Mapping[str, object]
    ) -> bool:
        if name in taken:
            self.add(
                "warning",
                document,
                f"{where}.name",
                f"the name {shown(name)} is taken: the first entry of that name is served, not "
                f"this one",
                "give each its own name",
            )
        return name not in taken

    def _report_unserved(self, document: JsonText, plain: Mapping[str, str]) -> None:
        for name, where in plain.items():
            self.add(
                "warning",
                document,
                where,
                f"not served yet: plain models, as {shown(name)} is: its base_path holds no "
                f"{GRAPH_FILE}",
            )
        for key in (
            "pipeline_config_list",
            "custom_node_library_config_list",
            "custom_loader_config_list",
        ):
            if document.value.get(key):
                self.add("warning", document, key, f"not served yet: {key} has no effect")

    def _check_subconfig(self, entry: GraphEntry) -> None:
        """Models of session calculators are not served yet: say so, and what is wrong there."""
        if not entry.subconfig_path.is_file():
            return
        reading = _Reading(str(entry.subconfig_path), entry.subconfig_path)
        try:
            document = reading.parse(schema.SUBCONFIG)
        except ConfigError as error:
            # Nothing of it is used yet, so it stops nothing.
            self.findings += [replace(finding, severity="warning") for finding in error.findings]
            return
        if document.value["model_config_list"]:
            reading.add(
                "warning", document, "model_config_list", "not served yet: models of a subconfig"
            )
        self.findings += reading.findings


def _is_graph(item: Mapping[str, Any], entry: GraphEntry) -> bool:
    """Is this entry of ``model_config_list`` a graph? One whose directory is missing is told of
    when it cannot be loaded."""
    if str(item.get("base_path", "")).startswith(_REMOTE):
        return False
    return "graph_path" in item or entry.graph_path.is_file() or not entry.directory.exists()


def _metrics_of(value: Mapping[str, Any]) -> MetricsConfig | None:
    metrics = value.get("monitoring", {}).get("metrics")
    if metrics is None:
        return None
    return MetricsConfig(metrics["enable"], tuple(metrics.get("metrics_list", ())))
