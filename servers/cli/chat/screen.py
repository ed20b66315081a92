"""Answers on the terminal: markdown by the package rich where it is installed, else plain text."""

from __future__ import annotations

import sys
from typing import Any, Final

from servers.cli.chat.answer_stream import ChatAnswer

_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"


class Screen:
    """Writes answers to standard output as they come."""

    def __init__(self, *, renders: bool) -> None:
        """``renders``: show markdown as it is meant; only on a terminal, and with rich."""
        self.is_terminal = sys.stdout.isatty()
        self._rich: Any = _rich() if renders and self.is_terminal else None
        self._live: Any = None
        self._shown = 0
        self._shown_reasoning = 0

    def begin(self) -> None:
        """Begin with an answer."""
        self._shown = self._shown_reasoning = 0
        if self._rich is not None:
            self._live = self._rich.live.Live(
                console=self._rich.console.Console(),
                refresh_per_second=12,
                vertical_overflow="visible",
            )
            self._live.start()

    def show(self, answer: ChatAnswer) -> None:
        """Show what was added to the answer."""
        if self._live is not None:
            self._live.update(self._rendered(answer))
            return
        reasoning = answer.reasoning[self._shown_reasoning :]
        self._shown_reasoning = len(answer.reasoning)
        text = answer.text[self._shown :]
        self._shown = len(answer.text)
        if reasoning:
            print(self._dimmed(reasoning), end="", flush=True)
        if text:
            if self._shown == len(text) and answer.reasoning:
                print()
            print(text, end="", flush=True)

    def end(self, answer: ChatAnswer | None) -> None:
        """End the answer: calls of tools, and how fast it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        else:
            print()
        if answer is None:
            return
        for call in answer.calls:
            function = call["function"]
            print(f"call: {function['name']}({function['arguments']})")
        if self.is_terminal and answer.tokens:
            speed = (answer.tokens - 1) / answer.seconds if answer.seconds else 0.0
            print(
                self._dimmed(
                    f"{answer.tokens} tokens, {speed:.1f} tokens/s, first after "
                    f"{answer.first_token_seconds * 1e3:.0f} ms"
                    + (" (cut off)" if answer.finish_reason == "length" else "")
                )
            )

    def _rendered(self, answer: ChatAnswer) -> Any:
        parts = []
        if answer.reasoning:
            parts.append(self._rich.text.Text(answer.reasoning, style="dim"))
        parts.append(self._rich.markdown.Markdown(answer.text))
        return self._rich.console.Group(*parts)

    def _dimmed(self, text: str) -> str:
        return f"{_DIM}{text}{_PLAIN}" if self.is_terminal else text


def _rich() -> Any:
    try:
        import rich.console
        import rich.live
        import rich.markdown
        import rich.text
    except ImportError:
        return None
    return rich
