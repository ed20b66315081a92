"""One kind of file that `graphrt validate` checks: graphs."""

from __future__ import annotations

from typing import Any

from graph_runtime import GraphError, GraphSyntaxError, NotFoundError, Registry, ValidationError
from servers.cli.graph_source import GraphSource
from servers.finding import Finding


def check_graph(path: str, registry: Registry) -> tuple[list[Finding], str]:
    """The findings, and what the file holds: ``3 nodes``. No error among them: it can run."""
    try:
        source = GraphSource(path, registry)
    except GraphSyntaxError as error:
        return [_of_syntax(path, error)], ""
    except GraphError as error:
        return [Finding(path, "error", str(error).removeprefix(f"{path}: "))], ""
    comments = _of_comments(source)
    try:
        plan = source.validate()
    except ValidationError as error:
        places = source.positions() or []
        findings = [_of_validation(source, finding, places) for finding in error.findings]
        return comments + findings, ""
    if comments:
        return comments, ""
    warnings = [Finding(path, "warning", warning) for warning in plan.warnings]
    count = len(plan.nodes)
    return warnings, f"{count} node" if count == 1 else f"{count} nodes"


def _of_comments(source: GraphSource) -> list[Finding]:
    try:
        source.queue_size()
    except GraphSyntaxError as error:
        return [_of_syntax(source.path, error)]
    return []


def _of_syntax(path: str, error: GraphSyntaxError) -> Finding:
    # The graph may be fine, and a subgraph file beside it broken: the error names the file.
    return Finding(
        error.source or path,
        "error",
        error.reason,
        line=error.line,
        column=error.column,
        hint=error.hint,
    )


def _of_validation(source: GraphSource, error: GraphError, places: list[str]) -> Finding:
    text, line, column, node = str(error), None, None, None
    for place, config in zip(places, source.config.node, strict=False):
        if text.startswith(f"{place}: "):
            text = text[len(place) + 2 :]
            line, column = (int(part) for part in place.rsplit(":", 2)[1:])
            node = config.name or config.calculator
            break
    message, _, hint = text.partition("\nhint: ")
    return Finding(
        source.path,
        "error",
        message,
        line=line,
        column=column,
        node=node,
        hint=hint or _hint(error.__cause__ if line is not None else error),
    )


def _hint(error: Any) -> str | None:
    if isinstance(error, NotFoundError) and "Unable to find Calculator" in str(error):
        return (
            "calculators of your own are loaded with `--calculators MODULE_OR_FILE` or by the key "
            "python_path of a config.json, subgraphs with `--subgraph FILE`"
        )
    return None
