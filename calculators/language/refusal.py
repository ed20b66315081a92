"""`Refusal`: ends an answer because of its content, in the words that the asked API has for it."""

from __future__ import annotations


class Refusal(Exception):
    """The request is not answered, or the answer does not go on.

    It is no error: the client gets a status of 200, and the refusal where its API has a place for
    one. See the table in ``docs/language_nodes.md``.

    Attributes:
        text: the explanation for the user; may be empty.
        category: a word for programs, such as "violence"; None without one.
    """

    def __init__(self, text: str = "", category: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.category = category
