"""A config with a model of each kind: language, vision, tensors, Python handlers, a stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from calculators.kit.tasks.installed import find_task
from calculators.kit.tasks.task import ModelToServe
from tests.process.server_process import DEMO
from tests.support.checkout import ROOT

#: Language models of the site.
LANGUAGE_MODELS: Final = 2
#: Models over texts, and their tasks.
_ENCODERS: Final = {"docs_ranker": "rerank", "docs_embedder": "embeddings"}
_EXAMPLES: Final = ROOT / "examples" / "graphs"


def make_site(folder: Path, *names: str) -> Path:
    """Write ``config.json`` with these models of the examples; return its path.

    Without names, it has all but those of `_ENCODERS`.
    """
    graphs: list[dict[str, Any]] = [
        {"name": "demo", "base_path": str(DEMO)},
        {"name": "shapes_vlm", "base_path": str(DEMO.parent / "shapes_vlm")},
        _example("flowers", subconfig="subconfig.json"),
        _example("python_handler"),
        _example("python_chat"),
        _example("sensor", python_path="sensor.py"),
    ]
    graphs = [graph for graph in graphs if not names or graph["name"] in names]
    graphs += [_of_task(folder, name) for name in _ENCODERS if name in names]
    config = folder / "config.json"
    config.write_text(json.dumps({"mediapipe_config_list": graphs}), "utf-8")
    return config


def _of_task(folder: Path, name: str) -> dict[str, Any]:
    """Write the graph of a model that has none; return its entry."""
    task, path = find_task(_ENCODERS[name]), DEMO.parent / name
    assert task is not None
    place = folder / name
    place.mkdir()
    graph = task.graph({}, ModelToServe(path=path, models_path=str(path), memory=2**32))
    (place / "graph.pbtxt").write_text(graph, "utf-8")
    return {"name": name}


def with_one_more(config: Path) -> str:
    """Return the text of a config that serves one of its graphs under a second name, too."""
    content = json.loads(config.read_text("utf-8"))
    graphs = content["mediapipe_config_list"]
    (flowers,) = (graph for graph in graphs if graph["name"] == "flowers")
    return json.dumps({**content, "mediapipe_config_list": [*graphs, {**flowers, "name": "more"}]})


def _example(name: str, **files: str) -> dict[str, Any]:
    folder = _EXAMPLES / name
    paths = {key: str(folder / value) for key, value in files.items()}
    return {"name": name, "base_path": str(folder), **paths}
