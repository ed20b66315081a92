"""The text of a graph: lexer, parser, source positions, names and tags."""
