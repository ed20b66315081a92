"""The parsers of tool calls: one file for each form, whose class is the constant `PARSER`."""
