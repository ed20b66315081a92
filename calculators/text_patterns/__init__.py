"""Words and regular expressions in text that comes in pieces.

Nodes use `calculators.text_patterns.patterns`.
"""
