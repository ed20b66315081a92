"""Words and regular expressions in text that comes in pieces.

Nodes use `calculators.language.text_patterns.patterns`.
"""
