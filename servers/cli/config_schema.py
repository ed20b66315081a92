"""`graphrt config-schema`: the JSON Schema of config.json, for editors and other checkers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Final

from calculators.kit.requests.schema import Schema
from servers.config.server_config import (
    CONFIG,
    CONFIG_KEYS,
    GRAPH_KEYS,
    GRAPH_ONLY_KEYS,
    MODEL_KEYS,
    Key,
)
from servers.options.server_options import declared_options

#: The tables of keys by their titles in the reference.
_TABLES: Final[Mapping[str, Mapping[str, Key]]] = {
    "Keys of config.json": CONFIG_KEYS,
    "Keys of a graph, and of a model": GRAPH_KEYS,
    "Further keys of a graph": GRAPH_ONLY_KEYS,
    "Further keys of a model": MODEL_KEYS,
}


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    print(json.dumps(config_schema(), indent=2, ensure_ascii=False))
    return 0


def key_texts() -> dict[str, dict[str, str]]:
    """Return the texts of all keys, by the title of their table. A flag's key has its text."""
    flags = {option.config_key: option.text for option in declared_options()}
    return {
        title: {name: key.text or flags[name] for name, key in keys.items()}
        for title, keys in _TABLES.items()
    }


def config_schema() -> Schema:
    """Return the schema, with the texts of the reference as descriptions."""
    made = CONFIG.json_schema()
    lists = made["properties"]
    graph = lists["mediapipe_config_list"]["items"]
    model = lists["model_config_list"]["items"]["properties"]["config"]
    of_file, of_both, of_graph, of_model = key_texts().values()
    tables = ((made, of_file), (graph, of_both | of_graph), (model, of_both | of_model))
    for entry, texts in tables:
        for name, schema in entry["properties"].items():
            entry["properties"][name] = {"description": texts[name], **schema}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "config.json of graphrt serve",
        **made,
    }
