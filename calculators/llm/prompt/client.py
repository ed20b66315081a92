"""`PromptProcess`: the server's side of a prompt process."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from calculators.child_process.supervisor import ChildState, Supervisor
from calculators.http_payload import RequestError
from calculators.llm.images.encoded_image import EncodedImage
from calculators.llm.openai.model_length import TOO_LONG
from calculators.llm.prompt.messages import (
    Chat,
    Decode,
    Encode,
    Load,
    Prompt,
    Ready,
    Refused,
    Text,
    Tokenize,
    from_prompt_decoder,
)
from graph_runtime import Code

#: For one request, waiting for its turn not counted. Templates have their own, shorter limit.
SECONDS: Final = 10.0
#: How much the process may grow beyond what it has after loading, in bytes.
MEMORY: Final = 2 * 1024**3


@dataclass(slots=True)
class _Open:
    body: bytes
    answer: asyncio.Future[Any]
    deaths: int = 0


class PromptProcess:
    """Renders and tokenizes in a supervised child; requests are answered in order.

    When the child dies or takes too long, the request that it was at is failed, the others are
    asked again of the next child.
    """

    def __init__(
        self,
        model_path: str,
        *,
        name: str,
        max_tokens: int | None = None,
        sees_images: bool = False,
        seconds: float = SECONDS,
    ) -> None:
        """``name``: of the served model, for messages; ``max_tokens``: what it can hold."""
        self._encode = msgspec.msgpack.Encoder().encode
        self._ids = itertools.count()
        self._open: dict[int, _Open] = {}
        self._child = Supervisor(
            name=f'prompt process of "{name}"',
            module="calculators.llm.prompt.process",
            load=Load(model_path, MEMORY, max_tokens, sees_images),
            decode=from_prompt_decoder.decode,
            ready=Ready,
            on_message=self._take,
            on_down=self._down,
            on_back=self._send_all,
            on_failed_restart=self._fail_all,
            is_busy=lambda: bool(self._open),
            hang_seconds=seconds,
        )

    async def start(self) -> Ready:
        """Load tokenizer and template.

        Raises:
            LoadError: they cannot be loaded; the text says why.
        """
        ready: Ready = await self._child.start()
        return ready

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._child.pid

    @property
    def unavailable_reason(self) -> str:
        return self._child.unavailable_reason

    async def close(self) -> None:
        await self._child.close()
        self._fail_all("")

    async def chat(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        template_kwargs: dict[str, Any] | None = None,
        images: list[EncodedImage] | None = None,
    ) -> Prompt:
        """The prompt that a chat becomes. ``messages`` have the tags of ``images``.

        Raises:
            RequestError: the template refuses it, or takes too long; an image cannot be read; the
                process is down.
        """
        message = Chat(next(self._ids), messages, tools, template_kwargs or {}, images or [])
        prompt: Prompt = await self._ask(message)
        return prompt

    async def encode(self, text: str, *, add_special_tokens: bool = True) -> Prompt:
        """The tokens of a text."""
        prompt: Prompt = await self._ask(Encode(next(self._ids), text, add_special_tokens))
        return prompt

    async def tokenize(self, text: str, **options: Any) -> Prompt:
        """The tokens of a text of any length; ``options`` are those of `Tokenize`."""
        prompt: Prompt = await self._ask(Tokenize(next(self._ids), text, **options))
        return prompt

    async def decode(self, ids: list[int], *, skip_special_tokens: bool = True) -> str:
        """The text of tokens, by the tokenizer itself."""
        text: Text = await self._ask(Decode(next(self._ids), ids, skip_special_tokens))
        return text.text

    async def _ask(self, message: Chat | Encode | Tokenize | Decode) -> Any:
        if self._child.state in (ChildState.STOPPED, ChildState.CLOSED):
            raise RequestError(self._child.unavailable_reason, code=Code.UNAVAILABLE)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        entry = _Open(self._body(message), answer)
        if not self._open:
            self._child.expect_answer()
        self._open[message.request_id] = entry
        self._child.send(entry.body)
        return await answer

    def _body(self, message: Chat | Encode | Tokenize | Decode) -> bytes:
        try:
            return self._encode(message)
        except (UnicodeEncodeError, OverflowError, RecursionError):
            raise RequestError(
                "the prompt has a text that is not Unicode (half of a surrogate pair), a number"
                " beyond 64 bits, or values nested too deeply"
            ) from None

    def _take(self, message: Any) -> None:
        entry = self._open.pop(message.request_id, None)
        if entry is None or entry.answer.done():
            return
        if isinstance(message, Refused):
            code = Code[message.code]
            reason = TOO_LONG if code is Code.OUT_OF_RANGE else None
            refusal = RequestError(message.reason, param=message.param, code=code, reason=reason)
            entry.answer.set_exception(refusal)
        else:
            entry.answer.set_result(message)

    def _down(self, reason: str) -> None:
        """Whom it was at when it died is to blame, at the second time."""
        head = next(iter(self._open), None)
        if head is None:
            return
        entry = self._open[head]
        entry.deaths += 1
        if self._child.was_hung or entry.deaths > 1:
            del self._open[head]
            _fail(entry, "the prompt takes too long or too much memory", Code.INVALID_ARGUMENT)

    def _send_all(self) -> None:
        for entry in self._open.values():
            self._child.send(entry.body)

    def _fail_all(self, reason: str) -> None:
        """There is no process to wait for."""
        open_, self._open = self._open, {}
        for entry in open_.values():
            _fail(entry, self._child.unavailable_reason, Code.UNAVAILABLE)


def _fail(entry: _Open, reason: str, code: Code) -> None:
    if not entry.answer.done():
        entry.answer.set_exception(RequestError(reason, code=code))
