"""`PromptProcess`: the server's side of a model's prompt processes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

import msgspec

from calculators.images.media.image import EncodedImage, pixels_of
from calculators.kit.child_process.on_demand import OnDemand
from calculators.kit.child_process.question_lane import WALL_SECONDS, QuestionLane
from calculators.kit.child_process.supervisor import RETRY_AFTER, START_SECONDS, LoadError
from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.engine import TOO_LONG
from calculators.llm.parsers.families import CallSyntax
from calculators.llm.prompt.messages import (
    Chat,
    Decode,
    DecodedTokens,
    Encode,
    FillIn,
    Prompt,
    PromptLoad,
    PromptReady,
    PromptRefused,
    Question,
    TokenizedTexts,
    TokenizeTexts,
    from_prompt_decoder,
)
from graph_runtime import Code, LoadProgress

#: Processor time for one short question. A few hundredths of a second are usual.
SECONDS: Final = 1.0
#: Processor time for one long question. The longest prompts of models take about a second.
LONG_SECONDS: Final = 10.0
#: The template's part of the time: its own error says more than the end of the process would.
FOR_TEMPLATE: Final = 0.7
#: Bytes of a question; longer ones, and all with images, are long.
SHORT_BYTES: Final = 64 * 1024
#: Bytes by which a process may grow after loading.
MEMORY: Final = 2 * 1024**3
#: Questions of each kind that may wait; one more is refused for now.
SHORT_WAITING: Final = 1024
LONG_WAITING: Final = 128
#: Idle time after which the process for long questions ends.
IDLE_SECONDS: Final = 120.0
#: Expected processor seconds per byte, by which cheap questions come first.
_COST_OF_BYTE: Final = 2e-7
_COST_OF_PIXEL: Final = 1e-8
_COST_OF_VIDEO_BYTE: Final = 1e-7


def prompt_load(
    model_path: str,
    *,
    max_tokens: int | None,
    sees_images: bool,
    special_tokens_in_text: bool,
    template_directory: str = "",
    seconds: float = SECONDS,
) -> PromptLoad:
    """Return the first message to a prompt process; see `PromptProcess`."""
    return PromptLoad(
        model_path,
        MEMORY,
        seconds * FOR_TEMPLATE,
        max_tokens=max_tokens,
        sees_images=sees_images,
        special_tokens_in_text=special_tokens_in_text,
        template_directory=template_directory,
    )


class PromptProcess:
    """Renders and tokenizes in supervised children, each at one question at a time.

    Long prompts have a process of their own, started for the first one and ended when idle, so that
    short prompts never wait for long ones. `QuestionLane` describes what happens when a child dies
    or takes too long.
    """

    def __init__(
        self,
        model_path: str,
        *,
        name: str,
        max_tokens: int | None = None,
        sees_images: bool = False,
        special_tokens_in_text: bool = False,
        template_directory: str = "",
        seconds: float = SECONDS,
        wall_seconds: float = WALL_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """Make the processes; `start` starts the first one.

        Args:
            name: the served model's, for messages.
            max_tokens: length of the model; None: unknown.
            sees_images: the model takes images.
            special_tokens_in_text: special tokens in the text of messages act as such.
            template_directory: see `PromptLoad`.
            seconds: processor time for a short question.
            wall_seconds: time after which a process that has not used ``seconds`` counts as hung.
            idle_seconds: idle time after which the process for long questions ends.
        """
        self._encode = msgspec.msgpack.Encoder().encode
        self._name = name
        self._load = prompt_load(
            model_path,
            max_tokens=max_tokens,
            sees_images=sees_images,
            special_tokens_in_text=special_tokens_in_text,
            template_directory=template_directory,
            seconds=seconds,
        )
        self._wall_seconds = wall_seconds
        # Apart from the engine's process, where the work would delay the steps of all requests
        # (decision 0004).
        self._short = QuestionLane(
            "calculators.llm.prompt.process",
            self._load,
            decode=from_prompt_decoder.decode,
            ready=PromptReady,
            name=f'prompt process of "{name}"',
            subject="prompt",
            cpu_seconds=seconds,
            wall_seconds=wall_seconds,
            most_waiting=SHORT_WAITING,
            is_shared=True,
        )
        # A tokenizer cannot be interrupted: a short prompt would wait a second for 4 Mi characters
        # (decision 0020).
        self._long = OnDemand(
            self._start_long, is_idle=lambda lane: lane.is_idle, idle_seconds=idle_seconds
        )

    async def start(self, progress: LoadProgress | None = None) -> PromptReady:
        """Load tokenizer and template; ``progress`` gets the phases.

        Raises:
            LoadError: one cannot be loaded; the text says why.
        """
        return await self._short.start(progress)

    @property
    def pid(self) -> int | None:
        """The id of the process for short questions, while there is one."""
        return self._short.pid

    @property
    def long_pid(self) -> int | None:
        """The id of the process for long questions, while there is one."""
        return None if self._long.current is None else self._long.current.pid

    @property
    def unavailable_reason(self) -> str:
        return self._short.unavailable_reason

    async def close(self) -> None:
        await asyncio.gather(self._short.close(), self._long.close())

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        images: list[EncodedImage] | None = None,
        sounds: Sequence[int] = (),
        *,
        continues: bool = False,
        will_be_cut: bool = False,
        calls: CallSyntax | None = None,
    ) -> Coroutine[Any, Any, Prompt]:
        """Render and tokenize a chat. ``messages`` have the tags of ``images`` and ``sounds``.

        Args:
            sounds: the number of samples of each.
            continues: let the prompt end with the text of the last message.
            will_be_cut: return the prompt also if it is longer than the model.
            calls: the form of calls, for a template that knows no tools.

        Raises:
            RequestError: the template refuses the chat or takes too long, an image cannot be read,
                too many questions wait, or the process is down.
        """
        message = Chat(
            *(messages, tools, template_kwargs or {}, images or [], continues, will_be_cut),
            calls,
            sounds,
        )
        cost = 0.0
        if images:
            files = sum(image.size for image in images if image.video)
            cost = pixels_of(images) * _COST_OF_PIXEL + files * _COST_OF_VIDEO_BYTE
        # Images are decoded there too: decoders parse bytes from strangers (decision 0021).
        return self._ask(message, is_long=bool(images or sounds), cost=cost)

    async def encode(
        self, text: str, *, add_special_tokens: bool = True, will_be_cut: bool = False
    ) -> Prompt:
        """Tokenize a text to be a prompt; raises as `chat` does."""
        prompt: Prompt = await self._ask(Encode(text, add_special_tokens, will_be_cut))
        return prompt

    def fill_in(
        self,
        prefix: str,
        suffix: str,
        files: Sequence[tuple[str, str]] = (),
        *,
        middle: str = "",
        room: int | None = None,
    ) -> Coroutine[Any, Any, Prompt]:
        """Make the prompt that asks for the text between two others; see `FillIn`.

        Raises:
            RequestError: the model has no tokens for that; else as `chat` does.
        """
        return self._ask(FillIn(prefix, suffix, files, middle, room))

    async def tokenize(self, texts: Sequence[str], **options: Any) -> list[bytes]:
        """Return a JSON array of each text's tokens; options are the members of `TokenizeTexts`."""
        tokens: TokenizedTexts = await self._ask(TokenizeTexts(texts, **options))
        return tokens.json

    async def decode(self, ids: list[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of tokens, by the tokenizer itself."""
        text: DecodedTokens = await self._ask(Decode(ids, skip_special_tokens))
        return text.text

    async def _ask(self, message: Question, *, is_long: bool = False, cost: float = 0.0) -> Any:
        try:
            body = self._encode(message)
        except (UnicodeEncodeError, OverflowError, RecursionError):
            raise RequestError(
                "the prompt has a text that is not Unicode (half of a surrogate pair), a number"
                " beyond 64 bits, or values nested too deeply"
            ) from None
        if is_long or len(body) > SHORT_BYTES:
            lane = await self._long_lane()
        else:
            lane = self._short
        answer = await lane.ask(body, cost + len(body) * _COST_OF_BYTE)
        if isinstance(answer, PromptRefused):
            code = Code[answer.code]
            # A reason of its own: agents recognize a full context by the code of this error and
            # shorten the conversation.
            reason = TOO_LONG if code is Code.OUT_OF_RANGE else None
            raise RequestError(answer.reason, param=answer.param, code=code, reason=reason)
        return answer

    # The process for long questions ---------------------------------------------------------------

    async def _long_lane(self) -> QuestionLane[PromptReady]:
        """Return the lane for long questions, started if there is none.

        Raises:
            RequestError: UNAVAILABLE, it cannot be started.
        """
        long = self._long
        if long.current is None and (long.is_closed or self._short.pid is None):
            raise RequestError(
                self._short.unavailable_reason, code=Code.UNAVAILABLE, retry_after=RETRY_AFTER
            )
        try:
            return await long.get()
        except LoadError as error:
            raise RequestError(
                f"the process for long prompts cannot be started: {error}",
                code=Code.UNAVAILABLE,
                retry_after=RETRY_AFTER,
            ) from None
        except asyncio.CancelledError:
            if long.is_closed:
                raise RequestError("the model is shut down", code=Code.UNAVAILABLE) from None
            raise

    async def _start_long(self) -> QuestionLane[PromptReady]:
        lane = QuestionLane(
            "calculators.llm.prompt.long_process",
            msgspec.structs.replace(self._load, render_seconds=LONG_SECONDS * FOR_TEMPLATE),
            decode=from_prompt_decoder.decode,
            ready=PromptReady,
            name=f'process for long prompts of "{self._name}"',
            subject="prompt",
            cpu_seconds=LONG_SECONDS,
            wall_seconds=self._wall_seconds + LONG_SECONDS,
            most_waiting=LONG_WAITING,
            is_shared=True,
        )
        try:
            await asyncio.wait_for(lane.start(), START_SECONDS)
        except TimeoutError:
            raise LoadError("it takes too long") from None
        return lane
