"""`OpenReasoning`: calls inside reasoning that a model never closes.

Models of Qwen3's kind sometimes call a tool and stop without ``</think>``. A call in reasoning may
also be a draft: the model goes on to think, and calls later or not at all. Which of the two it is
shows only at the end. So text is held back from the mark of a call on, and is a call if the
answer ends behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from calculators.language.events import Arguments, Content, OutputEvent, ToolCall
from calculators.llm.parsers.parser import ToolParser
from calculators.llm.parsers.tag_scanner import Tags, TagScanner


class OpenReasoning:
    """Finds the calls at the end of reasoning, in the text of its `Reasoning` events.

    A call counts if it names a tool of the request, is complete, and only further calls and white
    space follow it up to the end.
    """

    def __init__(
        self,
        parser: Callable[[Mapping[str, Mapping[str, Any]]], ToolParser],
        tools: Mapping[str, Mapping[str, Any]],
        heads: tuple[str, ...],
    ) -> None:
        """``parser``: makes a tool parser; ``heads``: the marks of its calls."""
        self._parser = parser
        self._tools = tools
        self._heads = Tags(*heads)
        self._scanner = TagScanner()
        #: The text from the mark of a call on, and the parser that reads it.
        self._held: list[str] = []
        self._reader: ToolParser | None = None
        self._has_call = False
        self._arguments: list[str] = []

    def feed(self, text: str) -> str:
        """Return the text of reasoning that is certain to be none of a call."""
        is_idle = self._reader is None and self._scanner.is_empty
        if is_idle and self._heads.first.search(text) is None:
            return text
        self._scanner.feed(text)
        return self._advance()

    def close(self) -> str:
        """Return the rest of the reasoning, which has ended: what was held is no call."""
        rest = "".join(self._held) + self._scanner.text[self._scanner.place :]
        self._held, self._reader, self._scanner = [], None, TagScanner()
        return rest

    def finish(self) -> tuple[str, str]:
        """Return the rest of the reasoning, and the text of calls, at the end of the answer."""
        self._scanner.finish()
        rest = self._advance()
        reader = self._reader
        is_call = reader is not None and self._take(reader.finish()) and self._ends_call()
        if is_call and self._has_call:
            return rest, "".join(self._held)
        return rest + self.close(), ""

    def _advance(self) -> str:
        passed: list[str] = []
        while True:
            # From mark to mark, so that what is found does not depend on the pieces.
            before, head = self._scanner.take(self._heads)
            if self._reader is None:
                passed.append(before)
            elif before and not self._read(before):
                passed.append(self._release(head or ""))
                continue
            if head is None:
                return "".join(passed)
            if self._reader is None:
                self._reader = self._parser(self._tools)
                self._has_call = False
                self._arguments = []
            if not self._read(head):
                passed.append(self._release(""))

    def _read(self, text: str) -> bool:
        """Return False if the text that is held back is no call."""
        self._held.append(text)
        return self._reader is not None and self._take(self._reader.feed(text))

    def _take(self, events: list[OutputEvent]) -> bool:
        for event in events:
            match event:
                case ToolCall(name):
                    if name not in self._tools or not self._ends_call():
                        return False
                    self._has_call = True
                case Arguments(text):
                    self._arguments.append(text)
                case Content(text) if not text.strip():
                    pass
                case _:
                    return False
        return True

    def _ends_call(self) -> bool:
        """Return True if the call before, if there is one, is complete."""
        text = "".join(self._arguments)
        self._arguments = []
        if not self._has_call:
            return True
        try:
            return isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            return False

    def _release(self, head: str) -> str:
        """Return what was held up to its last mark, from which on reading begins again.

        ``head``: a mark that was taken behind what was held.
        """
        held = "".join(self._held)
        self._held, self._reader = [], None
        last = max(held.rfind(each) for each in self._heads.values)
        if last <= 0:
            first = self._heads.find(held, 0, more=False)[1] or ""
            last = len(first)
        self._scanner.text = held[last:] + head + self._scanner.text[self._scanner.place :]
        self._scanner.place = 0
        return held[:last]
