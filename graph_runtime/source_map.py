"""Where the nodes of a graph stand in its text, so that later errors can name file and line."""

from __future__ import annotations

from graph_runtime.errors import GraphSyntaxError
from graph_runtime.text_tokens import Kind, Tokens

_OPENING = ("{", "<", "[")
_CLOSING = ("}", ">", "]")


def node_positions(text: str) -> list[tuple[int, int]]:
    """Line and column, from 1, of every top-level ``node`` of a graph's text, in order.

    In the shorthand ``node [ {...}, {...} ]`` each node starts at its own brace. A text that does
    not parse gives the nodes up to the first string without an end.
    """
    offsets: list[int] = []
    tokens = Tokens("", "")
    try:
        tokens = Tokens(text, "")
        _collect(tokens, offsets)
    except GraphSyntaxError:
        pass  # the parser is who reports it
    return _places(text, offsets)


def _places(text: str, offsets: list[int]) -> list[tuple[int, int]]:
    """As Tokens.place, in one pass over the text however many offsets there are."""
    places = []
    line, line_start = 1, 1 if text.startswith("\ufeff") else 0
    for offset in offsets:
        breaks = text.count("\n", line_start, offset)
        if breaks:
            line += breaks
            line_start = text.rfind("\n", line_start, offset) + 1
        places.append((line, offset - line_start + 1))
    return places


def _collect(tokens: Tokens, offsets: list[int]) -> None:
    """The offsets of the nodes; inside a list of nodes, ``outer`` is the depth of its bracket."""
    depth = 0
    in_list = False
    while tokens.current.kind is not Kind.END:
        token = tokens.advance()
        if depth == 0 and token.kind is Kind.WORD and token.text == "node":
            tokens.skip(":")
            in_list = tokens.at("[")
            if tokens.at("{", "<"):
                offsets.append(token.offset)
        elif token.kind is Kind.SYMBOL and token.text in _OPENING:
            if depth == 1 and in_list:
                offsets.append(token.offset)
            depth += 1
        elif token.kind is Kind.SYMBOL and token.text in _CLOSING:
            depth -= 1
            in_list = in_list and depth > 0
