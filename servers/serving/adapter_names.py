"""Further names of a graph: those that its tasks serve it under, such as LoRA adapters."""

from __future__ import annotations

from calculators.tasks import installed_tasks
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
    tasks = installed_tasks()
    found = (name for each in source.configs for task in tasks for name in task.further_names(each))
    return tuple(dict.fromkeys(found))
