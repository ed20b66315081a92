"""The check of a graph's file by `graphrt validate`."""

from __future__ import annotations

import logging
import traceback
from bisect import bisect_right
from pathlib import Path
from typing import Any, Final

from calculators.kit.examples import example_name
from graph_runtime import (
    GraphError,
    GraphSyntaxError,
    NotFoundError,
    Registry,
    ResourceSettings,
    ValidatedGraph,
    ValidationError,
)
from graph_runtime.authoring.author_frame import author_frame
from graph_runtime.errors import reason_of
from graph_runtime.language.graph_config import MAX_BYTES
from graph_runtime.language.statements import DraftText
from graph_runtime.plan.plan import GraphWarning
from graph_runtime.plan.resources import check_resources
from graphrt_base.interrupts import contained, raise_interrupt
from graphrt_base.regular_file import read_regular_file
from servers.contract.finding import Finding, with_word
from servers.serving.graph_source import GraphSource, answer_problems
from servers.serving.watched_files import store_addresses

_log: Final = logging.getLogger(__name__)


def check_graph(path: str, registry: Registry) -> tuple[list[Finding], str]:
    """Return the findings, and a summary such as ``3 nodes``. Without errors, the graph can run.

    A finding about a value of a node stands at that value.
    Options of nodes that name files, such as ``models_path``, are relative to the file's directory.
    """
    check = GraphCheck(path, registry)
    if check.plan is not None:
        settings = ResourceSettings(Path(path).absolute().parent)
        check.add_resources(settings)
        for problem in answer_problems(check.plan):
            check.add("error", problem)
    return check.placed_findings(), check.content


class GraphCheck:
    """One graph file and its findings. ``plan`` is None if there are errors."""

    def __init__(self, path: str, registry: Registry, draft: str | None = None) -> None:
        """``draft``: the text of the file as an editor has it."""
        self.path = path
        self._draft = draft
        self.source: GraphSource | None = None
        self.findings: list[Finding] = []
        self.plan: ValidatedGraph | None = None
        self.content = ""
        self._places: list[tuple[int, int]] = []
        try:
            self._run(registry)
        except BaseException as error:
            raise_interrupt(error)
            self.add_failure(contained(error))

    def _run(self, registry: Registry) -> None:
        errors: list[GraphSyntaxError] = []
        try:
            source = self.source = GraphSource(
                self.path, registry, draft=self._draft, errors=errors
            )
        except GraphSyntaxError as error:
            self.findings += [self._of_syntax(each) for each in (*errors, error, *error.others)]
            return
        except GraphError as error:
            message = str(error).removeprefix(f"{self.path}: ")
            self.findings.append(Finding(self.path, "error", message))
            return
        self.findings += [self._of_syntax(each) for each in errors]
        try:
            source.queue_size()
        except GraphSyntaxError as error:
            errors.append(error)
            self.findings.append(self._of_syntax(error))
        self._places = source.node_places() or []
        # The node's options are unknown, so other findings about it could be wrong.
        spoilt = {self._node_at(error.line, error.column) for error in errors}
        try:
            plan = source.validate()
        except ValidationError as error:
            for each in error.findings:
                finding = self._of_validation(each)
                is_spoilt = finding.line is not None and finding.column is not None
                if is_spoilt and self._node_at(finding.line, finding.column) in spoilt:
                    continue
                self.findings.append(finding)
            return
        if errors:
            return
        self.findings += [self._of_warning(each) for each in plan.warnings]
        self.plan = plan
        count = len(plan.nodes)
        self.content = f"{count} node" if count == 1 else f"{count} nodes"

    def add_resources(self, settings: ResourceSettings) -> frozenset[str]:
        """Check the files of the nodes' resources. Return the side packets that they supply."""
        assert self.plan is not None
        assert self.source is not None
        try:
            checked = check_resources(self.plan, settings, self.source.registry)
        except BaseException as error:
            raise_interrupt(error)
            self.add_failure(contained(error))
            return frozenset()
        addresses = store_addresses(self.source)
        for each in checked.errors:
            text = str(each)
            stored = next((address for address in addresses if f'"{address}"' in text), None)
            if stored is None:
                self.add("error", text)
            else:
                node = text.partition('": ')[0].removeprefix('node "')
                self.add("warning", f'"{stored}" is in a store, and is not checked', node)
        for node, warning in checked.warnings:
            self.add("warning", warning, node)
        return checked.side_packets

    def add(self, severity: Any, text: str, node: str = "", hint: str | None = None) -> None:
        """Add a finding. A finding about a node gets the node's place, and its name once."""
        if not node and text.startswith('node "'):
            node, _, text = text.removeprefix('node "').partition('": ')
        line, column = None, None
        nodes = self.source.config.node if self.source is not None else ()
        for place, config in zip(self._places, nodes, strict=False):
            if node and node == (config.name or config.calculator):
                line, column = place
                break
        else:
            line, column = self._place_in(text)
        self.findings.append(Finding(self.path, severity, text, line, column, node or None, hint))

    def add_failure(self, error: Exception) -> None:
        """Add a finding for an exception of graphrt or of a calculator's contract."""
        _log.debug("%s: the check failed", self.path, exc_info=error)
        frames = traceback.extract_tb(error.__traceback__)
        place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        self.findings.append(
            Finding(
                self.path,
                "error",
                f"the check of this graph failed: {reason_of(error)}{place}",
                hint="this is a fault of graphrt, so please report it with the graph; all other "
                "findings stand",
            )
        )

    def placed_findings(self) -> list[Finding]:
        """Return the findings, each at the word of the text that it is about."""
        text = self._draft
        if text is None:
            try:
                text = read_regular_file(self.path, MAX_BYTES).decode()
            except (OSError, UnicodeDecodeError):
                return self.findings
        draft = DraftText.read(text)
        return [
            with_word(each, draft) if each.file == self.path else each for each in self.findings
        ]

    def _place_in(self, message: str) -> tuple[int | None, int | None]:
        place = self.source.place_in(message) if self.source is not None else None
        return place or (None, None)

    def _node_at(self, line: int | None, column: int | None) -> int:
        return bisect_right(self._places, (line or 0, column or 0)) - 1

    def _of_syntax(self, error: GraphSyntaxError) -> Finding:
        # The error may be in a subgraph's file beside the graph, which it names.
        return Finding(
            error.source or self.path,
            "error",
            error.reason,
            line=error.line,
            column=error.column,
            hint=error.hint,
        )

    def _of_warning(self, warning: GraphWarning) -> Finding:
        place: tuple[int | None, int | None] = (None, None)
        if warning.origin is None:
            place = self._place_in(warning.message)
        elif warning.origin < len(self._places):
            place = self._places[warning.origin]
        line, column = place
        return Finding(
            self.path,
            "error" if warning.is_mistake else "warning",
            warning.message,
            line,
            column,
            warning.node or None,
            warning.hint or None,
        )

    def _of_validation(self, error: GraphError) -> Finding:
        text, place, node = str(error), None, None
        nodes = self.source.config.node if self.source is not None else ()
        for each, config in zip(self._places, nodes, strict=False):
            prefix = f"{self.path}:{each[0]}:{each[1]}: "
            if text.startswith(prefix):
                text, place = text.removeprefix(prefix), each
                node = config.name or config.calculator
                break
        message, _, hint = text.partition("\nhint: ")
        cause = error.__cause__ if place is not None else error
        line, column = place or self._place_in(message)
        return Finding(
            self.path,
            "error",
            message,
            line=line,
            column=column,
            node=node,
            hint=hint or calculator_hint(cause, self.path) or _raised_at(cause),
        )


def calculator_hint(error: object, path: str) -> str | None:
    """Return where the calculator may be that a graph's file asks for and nothing registers."""
    if not isinstance(error, NotFoundError) or "Unable to find Calculator" not in str(error):
        return None
    beside = Path(path).with_suffix(".py")
    if beside.is_file():
        name = example_name(str(beside))
        return f"it may be in the file beside the graph: `--calculators {name}`"
    return (
        "calculators of your own are loaded with `--calculators MODULE_OR_FILE` or by the key "
        "python_path of a config.json, subgraphs with `--subgraph FILE`"
    )


def _raised_at(error: BaseException | None) -> str | None:
    """Return the place where the contract of an author's calculator raised an exception."""
    if error is None or error.__cause__ is None or isinstance(error.__cause__, GraphError):
        return None
    frame = author_frame(error.__cause__)
    return None if frame is None else f"raised at {frame}"
