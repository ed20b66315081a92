"""``{% generation %}``: marks what the assistant said, for training. Rendering sees through it."""

from __future__ import annotations

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser


class GenerationBlock(Extension):
    """The block is its content. Names set inside end with it, as with Hugging Face's renderer."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it as a set of the instance

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)
