"""Words and regular expressions in text that comes in pieces.

`calculators.text_patterns.patterns` is what nodes use.
"""
