"""One graph to serve: its name, and where its files are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers.config.load_policy import LoadPolicy, residence_of

GRAPH_FILE = "graph.pbtxt"
SUBCONFIG_FILE = "subconfig.json"


@dataclass(frozen=True, slots=True)
class GraphEntry:
    """One served graph.

    Attributes:
        name: what clients call it.
        directory: its base path, absolute; where relative paths in the graph's options start.
        graph_path: the graph's file, absolute.
        subconfig_path: lists the models of its session calculators; need not exist.
        graph_text: the graph itself, where it was made and ``graph_path`` is no file.
        python_path: files and directories of calculators that only this graph has; absolute.
        residence: when it is in memory; another one makes no other graph.
    """

    name: str
    directory: Path
    graph_path: Path
    subconfig_path: Path
    graph_text: str | None = None
    python_path: tuple[Path, ...] = ()
    residence: LoadPolicy = field(default_factory=LoadPolicy, compare=False)


def entry_of(config: Mapping[str, Any], root: Path) -> GraphEntry:
    """The entry of a checked config object, ``root`` being the directory of config.json.

    Paths are OpenVINO Model Server's (``mediapipegraphconfig.cpp``): the base path is
    ``<root>/<name>`` unless given, and the others start there.
    """
    directory = root / (config.get("base_path") or config["name"])
    graph_path = directory / config.get("graph_path", GRAPH_FILE)
    if "graph_path" not in config and not graph_path.exists():
        # As model repositories with one directory per version have it.
        versioned = directory / "1" / GRAPH_FILE
        if versioned.is_file():
            directory, graph_path = versioned.parent, versioned
    return GraphEntry(
        config["name"],
        directory,
        graph_path,
        directory / config.get("subconfig", SUBCONFIG_FILE),
        python_path=python_path_of(config, root),
        residence=residence_of(config),
    )


def python_path_of(config: Mapping[str, Any], root: Path) -> tuple[Path, ...]:
    """The paths under the key ``python_path``, one or several, which start at ``root``."""
    paths = config.get("python_path", ())
    return tuple(root / path for path in ([paths] if isinstance(paths, str) else paths))
