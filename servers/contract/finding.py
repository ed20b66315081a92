"""Findings of checks of files, as text and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Literal

from graph_runtime.language.statements import DraftText, Statement


@dataclass(frozen=True)
class Finding:
    """One error or warning.

    Attributes:
        line, column: counted from 1; None if they are not known.
        end_line, end_column: the place after the word that is meant; None if it is not known.
        field: the field of a graph's text whose value is meant, such as ``node.input_stream``.
        node: the node's name, or its calculator if it has none.
        is_unserved: an entry of a config is not served, while others are.
    """

    file: str
    severity: Literal["error", "warning"]
    message: str
    line: int | None = None
    column: int | None = None
    node: str | None = None
    hint: str | None = None
    end_line: int | None = None
    end_column: int | None = None
    field: str | None = None
    is_unserved: bool = False

    def to_text(self) -> str:
        """Return ``file:line:column: error: node "x": message``, with the hint on its own line."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        node = f'node "{self.node}": ' if self.node and f'"{self.node}"' not in self.message else ""
        text = f"{place}: {self.severity}: {node}{self.message}"
        # Indented, so that further lines are seen to belong to the first.
        text = text.strip().replace("\n", "\n  ")
        return f"{text}\nhint: {self.hint}" if self.hint else text

    def to_json(self) -> dict[str, object]:
        members = asdict(self)
        del members["is_unserved"]
        return {key: value for key, value in members.items() if value is not None}


_QUOTED = re.compile(r'"([^"\n]{1,200})"|`([^`\n]{1,200})`')
#: ``Class::GetContract failed``, and the beginning of messages about tags.
_CALCULATOR = re.compile(r"\A\w+(\.\w+)*::|\bCalculator\b|\bcalculator\b")


def with_word(finding: Finding, draft: DraftText) -> Finding:
    """Return the finding at the word that it is about, with the end of that word.

    A finding that quotes a value of its node, such as a stream, moves to that value; a finding
    about the ports or the class of its node moves to the name of the calculator. Any other finding
    stays where it is and ends with the word there. A finding without a place is returned as it is.
    """
    if finding.line is None or finding.column is None:
        return finding
    offset = draft.offset(finding.line, finding.column)
    node = next(
        (
            block.node
            for block in draft.blocks
            if block.path == ("node",) and block.name_start == offset
        ),
        None,
    )
    word = _quoted_value(finding, draft, node) if node is not None else None
    if word is None:
        word = next((each for each in draft.statements if each.start == offset), None)
    if word is None:
        line, column = draft.place(draft.word_end(offset))
        return replace(finding, end_line=line, end_column=column)
    line, column = draft.place(word.start)
    end_line, end_column = draft.place(word.end)
    return replace(
        finding,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        field=".".join((*word.path, word.name)),
    )


def _quoted_value(finding: Finding, draft: DraftText, node: int | None) -> Statement | None:
    """Return the value of a node that the message quotes; None if it quotes none."""
    assert node is not None
    values = list(draft.of_node(node))
    # A field that the message names comes first, as the same stream may be input and output.
    values.sort(key=lambda each: each.name not in finding.message.replace(" ", "_"))
    message = finding.message.removeprefix(f'node "{finding.node}"')
    for quoted in _quotes(message):
        for matches in (_is_value, _is_stream, _is_tag):
            for each in values:
                if each.name != "name" and matches(each, quoted):
                    return each
    if _CALCULATOR.search(message) is None:
        return None
    return _first(each for each in values if each.name == "calculator")


def _quotes(message: str) -> Iterator[str]:
    # The word after "Did you mean" is not in the text.
    for match in _QUOTED.finditer(message.partition("Did you mean")[0]):
        yield match[1] or match[2]


def _is_value(statement: Statement, quoted: str) -> bool:
    return statement.value == quoted


def _is_stream(statement: Statement, quoted: str) -> bool:
    return statement.is_port and statement.value.rpartition(":")[2] == quoted


def _is_tag(statement: Statement, quoted: str) -> bool:
    return statement.is_port and statement.value.rpartition(":")[0] == quoted.removesuffix(":0")


def _first(statements: Iterable[Statement]) -> Statement | None:
    return next(iter(statements), None)
