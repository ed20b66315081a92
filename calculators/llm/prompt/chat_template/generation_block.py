"""``{% generation %}``: marks the assistant's text, for training. Rendering ignores the mark."""

from __future__ import annotations

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser


class GenerationBlock(Extension):
    """Renders the block's content. Names set inside are local, as in Hugging Face's renderer."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it as a set of the instance

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)
