"""The TextMate grammar of graph files, for editors that color by it.

``python -m servers.cli.editor.grammar > editors/vscode/syntaxes/textproto.tmLanguage.json`` writes
it from the table here.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final, NamedTuple


class Mark(NamedTuple):
    """One kind of word.

    Attributes:
        name: the same in all grammars, so that themes color alike.
        pattern: a regular expression; its groups 1, 2, ... have the further scopes.
        scope: TextMate's; "" for what has only groups.
    """

    name: str
    pattern: str
    scope: str
    groups: tuple[str, ...] = ()


_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_TAG: Final = "[A-Z_][A-Z0-9_]*"
_STREAM: Final = "[a-z_][a-z0-9_]*"
_PORTS: Final = "input_stream|output_stream|input_side_packet|output_side_packet"

#: In the order in which they are tried.
MARKS: Final = (
    Mark("comment", r"#.*$", "comment.line.number-sign"),
    Mark(
        "port",
        rf"\b({_PORTS})\s*(:)\s*([\"'])(?:({_TAG})(:))?(?:([0-9]+)(:))?({_STREAM})(\3)",
        "",
        (
            "entity.name.tag", "punctuation.separator.key-value",
            "punctuation.definition.string.begin", "entity.other.attribute-name",
            "punctuation.separator", "constant.numeric", "punctuation.separator",
            "variable.other.stream", "punctuation.definition.string.end",
        ),
    ),
    Mark(
        "calculator",
        r"\b(calculator)\s*(:)\s*([\"'])([A-Za-z0-9_.:]+)(\3)",
        "",
        (
            "entity.name.tag", "punctuation.separator.key-value",
            "punctuation.definition.string.begin", "entity.name.type.calculator",
            "punctuation.definition.string.end",
        ),
    ),
    Mark(
        "extension",
        r"(\[)\s*([A-Za-z0-9_./\-]+)\s*(\])(?=\s*:?\s*[{<])",
        "",
        ("punctuation.definition", "entity.name.type.options", "punctuation.definition"),
    ),
    Mark("string", r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", "string.quoted"),
    Mark("field", rf"\b{_NAME}(?=\s*[:{{<])|\b{_NAME}(?=\s*\[\s*[{{<])", "entity.name.tag"),
    Mark("truth", r"\b(?:true|false)\b", "constant.language.boolean"),
    Mark("number", r"-?\.?\b[0-9](?:[eE][+-]|[0-9A-Za-z_.])*", "constant.numeric"),
    Mark("word", rf"\b{_NAME}\b", "constant.other.enum"),
    Mark("bracket", r"[{}<>\[\]]", "punctuation.section"),
    Mark("separator", r"[:,;]", "punctuation.separator"),
)  # fmt: skip


def textmate() -> dict[str, object]:
    """Return the grammar as VS Code, Sublime Text and others read it."""
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "Graph (protobuf text format)",
        "scopeName": "source.textproto",
        "patterns": [{"include": f"#{each.name}"} for each in MARKS],
        "repository": {each.name: _rule(each) for each in MARKS},
    }


def _rule(mark: Mark) -> dict[str, Any]:
    rule: dict[str, Any] = {"match": mark.pattern}
    if mark.scope:
        rule["name"] = f"{mark.scope}.textproto"
    if mark.groups:
        rule["captures"] = {
            str(number): {"name": f"{scope}.textproto"}
            for number, scope in enumerate(mark.groups, 1)
        }
    return rule


if __name__ == "__main__":
    sys.stdout.write(json.dumps(textmate(), indent=2) + "\n")
