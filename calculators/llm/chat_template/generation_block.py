"""``{% generation %}``: marks what the assistant said, for training. Rendering sees through it."""

from __future__ import annotations

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser


class GenerationBlock(Extension):
    """The block is replaced by its content, so that names set inside live on behind it."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it as a set of the instance

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
