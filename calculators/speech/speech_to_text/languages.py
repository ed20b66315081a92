"""Whisper's languages: codes, and names as OpenAI's API and people write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: Names by code, in Whisper's order.
LANGUAGES: Final = {
    "en": "english", "zh": "chinese", "de": "german", "es": "spanish", "ru": "russian",
    "ko": "korean", "fr": "french", "ja": "japanese", "pt": "portuguese", "tr": "turkish",
    "pl": "polish", "ca": "catalan", "nl": "dutch", "ar": "arabic", "sv": "swedish",
    "it": "italian", "id": "indonesian", "hi": "hindi", "fi": "finnish", "vi": "vietnamese",
    "he": "hebrew", "uk": "ukrainian", "el": "greek", "ms": "malay", "cs": "czech",
    "ro": "romanian", "da": "danish", "hu": "hungarian", "ta": "tamil", "no": "norwegian",
    "th": "thai", "ur": "urdu", "hr": "croatian", "bg": "bulgarian", "lt": "lithuanian",
    "la": "latin", "mi": "maori", "ml": "malayalam", "cy": "welsh", "sk": "slovak",
    "te": "telugu", "fa": "persian", "lv": "latvian", "bn": "bengali", "sr": "serbian",
    "az": "azerbaijani", "sl": "slovenian", "kn": "kannada", "et": "estonian",
    "mk": "macedonian", "br": "breton", "eu": "basque", "is": "icelandic", "hy": "armenian",
    "ne": "nepali", "mn": "mongolian", "bs": "bosnian", "kk": "kazakh", "sq": "albanian",
    "sw": "swahili", "gl": "galician", "mr": "marathi", "pa": "punjabi", "si": "sinhala",
    "km": "khmer", "sn": "shona", "yo": "yoruba", "so": "somali", "af": "afrikaans",
    "oc": "occitan", "ka": "georgian", "be": "belarusian", "tg": "tajik", "sd": "sindhi",
    "gu": "gujarati", "am": "amharic", "yi": "yiddish", "lo": "lao", "uz": "uzbek",
    "fo": "faroese", "ht": "haitian creole", "ps": "pashto", "tk": "turkmen",
    "nn": "nynorsk", "mt": "maltese", "sa": "sanskrit", "lb": "luxembourgish",
    "my": "myanmar", "bo": "tibetan", "tl": "tagalog", "mg": "malagasy", "as": "assamese",
    "tt": "tatar", "haw": "hawaiian", "ln": "lingala", "ha": "hausa", "ba": "bashkir",
    "jw": "javanese", "su": "sundanese", "yue": "cantonese",
}  # fmt: skip
#: Further names, and codes that others use.
_ALIASES: Final = {
    "burmese": "my", "valencian": "ca", "flemish": "nl", "haitian": "ht",
    "letzeburgesch": "lb", "pushto": "ps", "panjabi": "pa", "moldavian": "ro",
    "moldovan": "ro", "sinhalese": "si", "castilian": "es", "mandarin": "zh",
    "farsi": "fa", "norwegian bokmål": "no", "nb": "no", "jv": "jw", "fil": "tl",
    "filipino": "tl", "iw": "he", "cmn": "zh",
}  # fmt: skip
_CODES: Final = {**{name: code for code, name in LANGUAGES.items()}, **_ALIASES}


def code_of(language: str) -> str:
    """Return the code of a language: of "English", "en", "en-US" or "<|en|>".

    An unknown one is returned as it is, in lower case.
    """
    word = language.strip().strip("<|>").lower()
    if word in LANGUAGES:
        return word
    if word in _CODES:
        return _CODES[word]
    first = word.replace("_", "-").partition("-")[0]
    return _CODES.get(first, first if first in LANGUAGES else word)


def name_of(code: str) -> str:
    """Return the English name of a language in lower case; an unknown code as it is."""
    return LANGUAGES.get(code, code)


def listed(codes: Sequence[str]) -> str:
    """Return codes for an error text, in alphabetical order."""
    return ", ".join(sorted(codes))
