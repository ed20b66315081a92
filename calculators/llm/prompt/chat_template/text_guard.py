"""`TextGuard`: keeps special tokens in the text of users and tools from acting as such.

A tokenizer makes the token that ends a turn of ``<|im_end|>`` wherever it stands, also in a
question, a web page or a file that a tool has read. Such a text could close its turn and go on as
the system or the assistant. So the text is cut inside each of these tokens: before the template
sees it, a mark is put into the token, and the prompt is split at the marks and tokenized piece by
piece. No piece has a whole token of the text, and those that the template writes stay whole.

The mark is a word of letters and digits that no client can know, as it is made for each request.
Templates that trim, split, compare or quote a text as JSON leave it alone; one that changes its
letters leaves a strange word in the text, but no token. A prompt without such text is not touched.

The text of the system and of the developer is the application's, which may mean its tokens
(``<|think|>`` in front of Gemma's system prompt). So does the beginning of an answer that a client
wants to be continued. Earlier answers may have the marks of reasoning, which clients send back.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calculators.llm.prompt.chat_template.limits import ChatTemplateError

_TRUSTED: Final = ("system", "developer")
#: What a template writes around turns and calls: candidates for tokens of their own.
_WRITTEN: Final = re.compile(r"<[^<>\s]{1,64}>|\[/?[A-Z_]{2,64}\]")
#: The last letter or digit before the signs that end a token.
_NATURAL_CUT: Final = re.compile(r"\w(?=[^\w\s]+\Z)")


class ControlTokens:
    """The texts of some tokens, which are found in any text in one pass."""

    def __init__(self, texts: Iterable[str]) -> None:
        # A text of one character cannot be cut.
        self.texts = frozenset(text for text in texts if len(text) > 1 and not text.isspace())
        self._pattern = re.compile(_expression(self.texts)) if self.texts else None

    def any_in(self, value: Any) -> bool:
        """Return True if a text in ``value``, which is made of JSON's types, has such a token."""
        if self._pattern is None:
            return False
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if isinstance(each, str):
                if self._pattern.search(each) is not None:
                    return True
            elif isinstance(each, Mapping):
                waiting += each
                waiting += each.values()
            elif isinstance(each, (list, tuple)):
                waiting += each
        return False

    def marked(self, text: str, mark: str) -> str:
        """Return the text with the mark inside each token, also inside those that overlap."""
        pieces: list[str] = []
        place = 0
        while self._pattern is not None:
            found = self._pattern.search(text, place)
            if found is None:
                break
            cut = found.start() + self._cut(found.group())
            pieces.append(text[place:cut])
            place = cut
        return mark.join((*pieces, text[place:]))

    def _cut(self, token: str) -> int:
        """Return the place of the cut: where words end for most tokenizers, ``<|im_end`` ``|>``."""
        natural = _NATURAL_CUT.search(token)
        cut = 1 if natural is None else natural.end()
        assert self._pattern is not None
        return 1 if self._pattern.search(token, 0, cut) else cut


@dataclass(frozen=True, slots=True)
class GuardedTokens:
    """The tokens that text must not have, by the role of its message.

    Attributes:
        user: special tokens, and the others that a template writes around turns.
        tool: the same, and what the template writes around results.
        assistant: as ``user``, without the marks of reasoning.
    """

    user: ControlTokens
    tool: ControlTokens
    assistant: ControlTokens

    @classmethod
    def of(
        cls,
        special: Collection[str],
        *,
        turns: Collection[str],
        results: Collection[str],
        reasoning: Collection[str],
    ) -> GuardedTokens:
        """Sort the tokens of a vocabulary.

        Args:
            special: texts of its special tokens.
            turns, results: texts of tokens that the template writes around turns, and around the
                results of tools.
            reasoning: texts of tokens that begin or end reasoning.
        """
        guarded = set(special) | (set(turns) - set(reasoning))
        return cls(
            ControlTokens(guarded),
            ControlTokens(guarded | set(results)),
            ControlTokens(guarded - set(reasoning)),
        )


def written_tokens(prompt: str) -> set[str]:
    """Return what a prompt has that looks like tokens of its template."""
    return set(_WRITTEN.findall(prompt))


class TextGuard:
    """Marks the texts of one request, and splits its prompt at the marks."""

    def __init__(self, tokens: GuardedTokens) -> None:
        self._tokens = tokens
        # Letters first: no template takes it for a number.
        self._mark = "x" + secrets.token_hex(6)

    def messages(
        self, messages: Sequence[Mapping[str, Any]], *, continues: bool
    ) -> list[dict[str, Any]]:
        """Return messages whose texts are marked; with ``continues`` all but the last answer."""
        marked = []
        for place, message in enumerate(messages):
            role = message["role"]
            is_open = continues and place == len(messages) - 1 and role == "assistant"
            if role not in _TRUSTED and not is_open:
                match role:
                    case "user":
                        tokens = self._tokens.user
                    case "assistant":
                        tokens = self._tokens.assistant
                    case _:
                        tokens = self._tokens.tool
                message = {**self.value(message, tokens), "role": role}
            marked.append(dict(message))
        return marked

    def value(self, value: Any, tokens: ControlTokens | None = None) -> Any:
        """Return a value made of JSON's types, such as tools or documents, with marked texts.

        Raises:
            ChatTemplateError: it is nested too deeply.
        """
        tokens = self._tokens.user if tokens is None else tokens
        if not tokens.any_in(value) and not _has_escaped(value, tokens):
            return value
        try:
            return self._marked(value, tokens)
        except RecursionError:
            raise ChatTemplateError("a value of the request is nested too deeply") from None

    def _marked(self, value: Any, tokens: ControlTokens) -> Any:
        if isinstance(value, str):
            return tokens.marked(value, self._mark)
        if isinstance(value, (list, tuple)):
            return [self._marked(each, tokens) for each in value]
        if isinstance(value, Mapping):
            return {
                tokens.marked(name, self._mark): self._marked(
                    _unescaped(each, tokens) if name == "arguments" else each, tokens
                )
                for name, each in value.items()
            }
        return value

    def pieces(self, prompt: str) -> list[str]:
        """Split a prompt at the marks."""
        return prompt.split(self._mark)

    def without_marks(self, text: str) -> str:
        """Return a text as it was before it was marked."""
        return text.replace(self._mark, "")


def _has_escaped(value: Any, tokens: ControlTokens) -> bool:
    """Return True if arguments of a call have a token once a template parses their JSON."""
    calls = value.get("tool_calls") if isinstance(value, Mapping) else None
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        arguments = function.get("arguments") if isinstance(function, Mapping) else None
        if _unescaped(arguments, tokens) is not arguments:
            return True
    return False


def _unescaped(arguments: Any, tokens: ControlTokens) -> Any:
    """Return arguments, a JSON text, without escapes if these hide a token (``\\u003cs>``)."""
    if not isinstance(arguments, str) or "\\" not in arguments:
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return json.dumps(value, ensure_ascii=False) if tokens.any_in(value) else arguments


def _expression(texts: Collection[str]) -> str:
    """Return a regular expression that matches the shortest of the texts at a place.

    It branches at each letter, so that thousands of tokens with one beginning take no longer.
    """
    branches: dict[str, list[str]] = {}
    for text in texts:
        if not text:
            return ""  # a shorter text ends here
        branches.setdefault(text[0], []).append(text[1:])
    if not branches:
        return ""
    written = [re.escape(first) + _expression(rest) for first, rest in sorted(branches.items())]
    return written[0] if len(written) == 1 else f"(?:{'|'.join(written)})"
