"""`GrowingString`: a JSON string written while the text it is of still comes."""

from __future__ import annotations

from json.encoder import encode_basestring


class GrowingString:
    """Gives what stands between the quotes of the JSON string, piece by piece.

    With ``trims_newlines`` one newline at either end of the text does not belong to it.
    """

    __slots__ = ("_held", "_is_first", "_trims")

    def __init__(self, *, trims_newlines: bool) -> None:
        self._trims = trims_newlines
        self._is_first = True
        self._held = ""

    def more(self, text: str) -> str:
        """What more of the text, not empty, adds."""
        if not self._trims:
            return encode_basestring(text)[1:-1]
        if self._is_first:
            self._is_first = False
            text = text.removeprefix("\n")
        text = self._held + text
        self._held = "\n" if text.endswith("\n") else ""
        return encode_basestring(text.removesuffix("\n"))[1:-1]

    def break_off(self) -> str:
        """What was held back because it might have been the newline at the end."""
        return encode_basestring(self._held)[1:-1]
