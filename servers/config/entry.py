"""One graph to serve: its name and the paths of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calculators.kit.seen_files import SeenFiles
from servers.config.load_policy import LoadPolicy, residence_of
from servers.config.scale import Scale, scale_of

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
        residence: when the graph is in memory. Not compared: a change of it needs no reload.
        scale: its replicas on a cluster. Not compared: on one machine it has no effect.
    """

    name: str
    directory: Path
    graph_path: Path
    subconfig_path: Path
    graph_text: str | None = None
    python_path: tuple[Path, ...] = ()
    residence: LoadPolicy = field(default_factory=LoadPolicy, compare=False)
    scale: Scale = field(default_factory=Scale, compare=False)


def entry_of(config: Mapping[str, Any], root: Path, seen: SeenFiles | None = None) -> GraphEntry:
    """Return the entry for a checked config object; ``root`` is the directory of config.json.

    ``seen`` remembers which files decided.

    Paths are OpenVINO Model Server's (``mediapipegraphconfig.cpp``): the base path is
    ``<root>/<name>`` unless given, and the others start there.
    """
    seen = seen or SeenFiles()
    directory = root / (config.get("base_path") or config["name"])
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


def python_path_of(config: Mapping[str, Any], root: Path) -> tuple[Path, ...]:
    """Return the paths under the key ``python_path``, one or several, resolved from ``root``."""
    paths = config.get("python_path", ())
    return tuple(root / path for path in ([paths] if isinstance(paths, str) else paths))
