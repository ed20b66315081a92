"""Passages as a text for the model, and as the sources of its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from calculators.language import Source
from calculators.language.retrieval.index_file import FoundPassage

_BEGIN: Final = "<passages>"
_END: Final = "</passages>"
#: Characters of a passage that are worth quoting when no more fit.
_LEAST: Final = 100
_MORE: Final = " [...]"
#: The beginnings of tags of chat templates, of the marks of images and of the marks around the
#: passages: ``<|im_start|>``, ``</s>``, ``<start_of_turn>``, ``[INST]``, ``[gMASK]``.
_TAG: Final = re.compile(r"<(?=[/|\uff5cA-Za-z_])|\[(?=/?[A-Za-z]?[A-Z_]{3,}\])")


def escape_tags(text: str) -> str:
    """Return a text that holds no tag of any chat template: a space follows what begins one.

    Tags differ from model to model, so everything that looks like one is changed; people and models
    read it as before. Tokenizers find the special token ``<|im_end|>`` in a text wherever it is, so
    a document with it could end the message that quotes it.
    """
    return _TAG.sub(lambda match: f"{match[0]} ", text)


def quote_passages(
    found: Sequence[FoundPassage], instruction: str, max_characters: int, *, first: int = 1
) -> tuple[str, tuple[Source, ...]]:
    """Return a text with passages, and the passages as sources.

    Each passage has its number in brackets, its path and its line above it.

    Args:
        max_characters: of all passages with their numbers, paths and lines. The one that does not
            fit is cut off, and those behind it are left out.
        first: the number of the first passage.

    Returns:
        "" and no sources if there are no passages, or if not even the first one fits.
    """
    blocks: list[str] = []
    sources: list[Source] = []
    room = max_characters
    for mark, each in enumerate(found, first):
        path = escape_tags(each.path)
        head = f"[{mark}] {path}:{each.line}\n"
        if each.title:
            head += f"{escape_tags(each.title)}\n"
        body = escape_tags(each.text)
        is_cut = len(head) + len(body) > room
        if is_cut:
            left = room - len(head) - len(_MORE)
            if left < _LEAST:
                break
            body = _cut(body, left) + _MORE
        blocks.append(head + body)
        sources.append(Source(mark, f"{each.path}:{each.line}", each.text, each.path))
        room -= len(blocks[-1])
        if is_cut:
            break
    if not blocks:
        return "", ()
    return "\n\n".join((instruction, _BEGIN, *blocks, _END)), tuple(sources)


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, up to the end of a line or a word if one is near."""
    beginning = text[:most]
    place = max(beginning.rfind("\n"), beginning.rfind(" "))
    return beginning[:place] if place > most // 2 else beginning
