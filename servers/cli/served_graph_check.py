"""What would stop a graph from being served, beyond what is wrong with the graph itself: resources
of its nodes, side packets, models of its sessions. Nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from calculators.openvino.directory_models import DirectoryModels
from graph_runtime import GraphError, Registry, ResourceSettings, ValidatedGraph
from graph_runtime.resources import check_resources
from servers.config import GraphEntry, ModelEntry
from servers.finding import Finding
from servers.graph_inference import GraphInterface, SideParameters
from servers.graph_inference.model_tensors import ModelTensors, model_of_session, sessions_of
from servers.graph_source import GraphSource
from servers.loaded_graph import check_side_packets
from servers.models.version_paths import version_paths


def check_served_graph(
    path: str, entry: GraphEntry, registry: Registry, models: Mapping[str, ModelEntry]
) -> list[Finding]:
    """Of a graph that is valid; ``path``: its file, as it is shown; ``models``: the config's."""
    source = GraphSource(path, registry)
    return [*_Check(source, entry).findings(source.validate(), models)]


class _Check:
    def __init__(self, source: GraphSource, entry: GraphEntry) -> None:
        self._source = source
        self._entry = entry
        self._places: dict[str, tuple[int, int]] = {}
        for place, node in zip(source.positions() or (), source.config.node, strict=False):
            line, column = place.rsplit(":", 2)[1:]
            self._places.setdefault(node.name or node.calculator, (int(line), int(column)))

    def findings(self, plan: ValidatedGraph, models: Mapping[str, ModelEntry]) -> Iterator[Finding]:
        settings = ResourceSettings(self._entry.directory, model_name=self._entry.name)
        checked = check_resources(plan, settings, self._source.registry)
        for error in checked.errors:
            yield self._finding("error", str(error))
        for node, warning in checked.warnings:
            yield self._finding("warning", f'node "{node}": {warning}')
        try:
            interface = GraphInterface(self._entry.name, plan, ModelTensors())
            check_side_packets(SideParameters(plan, checked.side_packets), interface)
        except GraphError as error:
            yield self._finding("error", str(error))
        for session in sessions_of(plan):
            name, version = model_of_session(session)
            try:
                self._check_model(name, version, models)
            except GraphError as error:
                yield self._finding("error", str(error), session.config.name or session.name)

    def _check_model(
        self, name: str, version: int | None, models: Mapping[str, ModelEntry]
    ) -> None:
        """
        Raises:
            GraphError: there is no such model or version.
        """
        if name not in models:
            DirectoryModels(self._entry.directory).check(name, version)
            return
        paths = version_paths(models[name])
        if version is not None and version not in paths:
            there = ", ".join(map(str, paths))
            raise GraphError(f'the model "{name}" has no version {version}; it has {there}')

    def _finding(self, severity: Any, text: str, node: str = "") -> Finding:
        """What is wrong with a node has its place, and its name once."""
        if not node and text.startswith('node "'):
            node, _, text = text.removeprefix('node "').partition('": ')
        line, column = self._places.get(node, (None, None))
        return Finding(self._source.path, severity, text, line, column, node or None)
