"""The parsers of reasoning: one file for each form, whose class is the constant `PARSER`."""
