"""Parsers of a model's text: text in; events of reasoning, content and tool calls out."""
