"""Positions of nodes in a graph's text, so that later errors can name file and line."""

from __future__ import annotations

from graph_runtime.errors import GraphSyntaxError
from graph_runtime.language.statements import PORT_FIELDS
from graph_runtime.language.text_tokens import Kind, Tokens

_OPENING = ("{", "<", "[")
_CLOSING = ("}", ">", "]")


def node_positions(text: str) -> list[tuple[int, int]]:
    """Line and column, from 1, of every top-level ``node`` of a graph's text, in order.

    In the shorthand ``node [ {...}, {...} ]`` each node starts at its own brace. In a text that
    does not parse, the nodes are found up to the first unterminated string.
    """
    offsets: list[int] = []
    tokens = Tokens("", "")
    try:
        tokens = Tokens(text, "")
        _collect(tokens, offsets)
    except GraphSyntaxError:
        pass  # the parser reports it
    return _places(text, offsets)


def port_positions(text: str) -> dict[str, tuple[int, int]]:
    """Line and column, from 1, of the graph's own streams and side packets.

    Keys are their texts in the graph, such as ``TAG:name``. Of a repeated text the last position
    counts: outputs follow inputs.
    """
    found: dict[str, int] = {}
    tokens = Tokens("", "")
    try:
        tokens = Tokens(text, "")
        _collect_ports(tokens, found)
    except GraphSyntaxError:
        pass
    by_offset = sorted(found, key=found.__getitem__)
    return dict(zip(by_offset, _places(text, [found[each] for each in by_offset]), strict=True))


def _places(text: str, offsets: list[int]) -> list[tuple[int, int]]:
    """Line and column of each offset, like `Tokens.place`, in one pass over the text."""
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
    """Append the offsets of the nodes. In a list, ``outer`` is the depth of its bracket."""
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


def _collect_ports(tokens: Tokens, found: dict[str, int]) -> None:
    """Add the offsets of the graph's own ports, whose values are strings or lists of strings."""
    depth = 0
    while tokens.current.kind is not Kind.END:
        token = tokens.advance()
        if depth == 0 and token.kind is Kind.WORD and token.text in PORT_FIELDS:
            tokens.skip(":")
            tokens.skip("[")
            while tokens.current.kind is Kind.STRING:
                value = tokens.advance()
                found[value.text[1:-1]] = value.offset
                tokens.skip(",")
        elif token.kind is Kind.SYMBOL and token.text in _OPENING:
            depth += 1
        elif token.kind is Kind.SYMBOL and token.text in _CLOSING:
            depth = max(0, depth - 1)
