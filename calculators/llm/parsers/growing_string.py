"""`GrowingString`: a JSON string that is written while its text still arrives."""

from __future__ import annotations

from json.encoder import encode_basestring


class GrowingString:
    """Encodes a text piece by piece as the inside of a JSON string, without the quotes.

    With ``trims_newlines`` one newline at either end of the text is dropped.
    """

    __slots__ = ("_held", "_is_first", "_trims")

    def __init__(self, *, trims_newlines: bool) -> None:
        self._trims = trims_newlines
        self._is_first = True
        self._held = ""

    def more(self, text: str) -> str:
        """Encode the next piece of the text, which must not be empty."""
        if not self._trims:
            return encode_basestring(text)[1:-1]
        if self._is_first:
            self._is_first = False
            text = text.removeprefix("\n")
        text = self._held + text
        self._held = "\n" if text.endswith("\n") else ""
        return encode_basestring(text.removesuffix("\n"))[1:-1]

    def break_off(self) -> str:
        """Return the newline that was held back because it might have been the last one."""
        return encode_basestring(self._held)[1:-1]
