"""Under which names besides its own a graph is asked: its LoRA adapters."""

from __future__ import annotations

from calculators.llm.options.adapter_names import adapter_names
from graph_runtime import GraphError, Registry
from graph_runtime.regular_file import DescriptorsExhaustedError
from servers.config import GraphEntry
from servers.serving.graph_source import GraphSource


def adapter_names_of(entry: GraphEntry, registry: Registry) -> tuple[str, ...]:
    """As its files say now, those of its subgraphs included; none where they cannot be read. For a
    thread."""
    try:
        source = GraphSource(str(entry.graph_path), registry, text=entry.graph_text)
    except DescriptorsExhaustedError:
        raise
    except GraphError:  # said when it is loaded
        return ()
    return adapter_names_in(source)


def adapter_names_in(source: GraphSource) -> tuple[str, ...]:
    """Of a graph that was read."""
    return tuple(dict.fromkeys(name for each in source.configs for name in adapter_names(each)))
