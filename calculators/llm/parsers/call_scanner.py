"""`CallScanner`: a `TagScanner` that can return text that turned out not to be a call."""

from __future__ import annotations

from calculators.llm.parsers.tag_scanner import Tags, TagScanner


class CallScanner(TagScanner):
    """Remembers what was taken since the last `commit`, tags included."""

    def __init__(self) -> None:
        self._taken: list[str] = []

    def take_one(self, characters: str) -> str | None:
        """Take the next character if it is one of ``characters``: quicker than to look for tags."""
        place = self.place
        character = self.text[place : place + 1]
        if not character or character not in characters:
            return None
        self.place = place + 1
        self._taken.append(character)
        return character

    def take(self, tags: Tags) -> tuple[str, str | None]:
        text, tag = super().take(tags)
        if text:
            self._taken.append(text)
        if tag is not None:
            self._taken.append(tag)
        return text, tag

    def take_content(self, tags: Tags) -> tuple[str, str | None]:
        """Take like `take`, but remember only the tag: the text is not part of a call."""
        text, tag = super().take(tags)
        if tag is not None:
            self._taken.append(tag)
        return text, tag

    def put_back(self, tag: str) -> None:
        """Undo the taking of ``tag``, which came out of the last `take`."""
        self.place -= len(tag)
        self._taken.pop()

    def commit(self) -> None:
        """Forget the remembered text: it has become events."""
        self._taken.clear()

    def give_back(self) -> str:
        """Return and forget all that was taken since the last `commit`."""
        taken = "".join(self._taken)
        self._taken.clear()
        return taken
