r"""Classes of letters by a property: ``\p{L}``, ``\p{Lu}``, ``\p{Script=Greek}``.

Categories are those of Python's Unicode. Scripts are those whose letters have names that begin with
the script's.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from itertools import chain
from typing import Final

_Ranges = tuple[tuple[int, int], ...]

#: Long names of categories, as ECMA 262 has them.
_NAMES: Final = {
    "Letter": "L", "Lowercase_Letter": "Ll", "Uppercase_Letter": "Lu", "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Nonspacing_Mark": "Mn",
    "Spacing_Mark": "Mc", "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd",
    "Letter_Number": "Nl", "Other_Number": "No", "Punctuation": "P", "punct": "P",
    "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps",
    "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi", "Final_Punctuation": "Pf",
    "Other_Punctuation": "Po", "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Separator": "Z", "Space_Separator": "Zs",
    "Line_Separator": "Zl", "Paragraph_Separator": "Zp", "Control": "Cc", "Format": "Cf",
    "Alphabetic": "L", "Alpha": "L", "Lowercase": "Ll", "Uppercase": "Lu",
}  # fmt: skip
#: The prefixes of the names of a script's letters.
_SCRIPTS: Final = {
    "Latin": "LATIN ", "Latn": "LATIN ", "Greek": "GREEK ", "Grek": "GREEK ",
    "Cyrillic": "CYRILLIC ", "Cyrl": "CYRILLIC ", "Han": "CJK UNIFIED IDEOGRAPH",
    "Hani": "CJK UNIFIED IDEOGRAPH", "Hiragana": "HIRAGANA ", "Katakana": "KATAKANA ",
    "Hangul": "HANGUL ", "Arabic": "ARABIC LETTER ", "Hebrew": "HEBREW LETTER ",
    "Thai": "THAI ", "Devanagari": "DEVANAGARI ",
}  # fmt: skip
_FIXED: Final[dict[str, _Ranges]] = {
    "Any": ((0, 0x10FFFF),),
    "ASCII": ((0, 0x7F),),
}
#: Beyond these there are no letters with names or categories of their own.
_ASSIGNED: Final = tuple(chain(range(0x33480), range(0xE0000, 0xE0200)))


@cache
def unicode_class(name: str) -> _Ranges | None:
    """Return the letters with a property; None where the property is not known."""
    kind, _, value = name.rpartition("=")
    if kind in ("Script", "sc", "Script_Extensions", "scx") or (not kind and value in _SCRIPTS):
        prefix = _SCRIPTS.get(value)
        return None if prefix is None else _named(prefix)
    if kind not in ("", "General_Category", "gc"):
        return None
    if value in _FIXED:
        return _FIXED[value]
    category = _NAMES.get(value, value)
    return _by_category().get(category)


@cache
def _by_category() -> dict[str, _Ranges]:
    """Return the ranges of each category that has letters, by its short name."""
    found: dict[str, list[tuple[int, int]]] = {}
    for code in _ASSIGNED:
        category = unicodedata.category(chr(code))
        if category == "Cn" or category == "Cs":
            continue
        for name in (category, category[0]):
            ranges = found.setdefault(name, [])
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
    found["LC"] = sorted(chain(found["Lu"], found["Ll"], found["Lt"]))
    return {name: tuple(ranges) for name, ranges in found.items()}


def _named(prefix: str) -> _Ranges:
    codes = (code for low, high in _by_category()["L"] for code in range(low, high + 1))
    return tuple(
        (code, code) for code in codes if unicodedata.name(chr(code), "").startswith(prefix)
    )
