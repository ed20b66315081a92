"""`ChatTemplate`: renders messages to the exact prompt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from time import thread_time
from types import TracebackType
from typing import Any

from jinja2 import Template, TemplateNotFound, TemplateSyntaxError

from calculators.llm.prompt.chat_template.environment import TemplateEnvironment
from calculators.llm.prompt.chat_template.errors import ChatTemplateError, clean
from calculators.llm.prompt.chat_template.limits import LONGEST_TEMPLATE, RenderLimits
from calculators.llm.prompt.chat_template.not_given import NOT_GIVEN
from calculators.llm.prompt.chat_template.template_files import TemplateFiles, TemplateSource
from calculators.llm.requests.template_arguments import RESERVED
from graph_runtime.errors import Code


class ChatTemplate:
    """A model's template, compiled once and rendered often. Threads may share it.

    Args:
        files: the template and its files.
        limits: the limits of one rendering.

    Attributes:
        files: as given.
        of_parts: roles whose text the template takes as a list of parts, see `ShownRoles`.

    Raises:
        ChatTemplateError: the template does not compile; the text names file and line.
    """

    def __init__(self, files: TemplateFiles, limits: RenderLimits | None = None) -> None:
        self.files = files
        self.of_parts = frozenset[str]()
        self._deadline = math.inf
        self._limits = limits or RenderLimits()
        self._environment = TemplateEnvironment(files.directory, self._limits)
        self._main = self._compile(files.main)
        self._with_tools = self._main if files.tool_use is None else self._compile(files.tool_use)

    @classmethod
    def load(cls, directory: str | Path, limits: RenderLimits | None = None) -> ChatTemplate:
        """Load the template of a model directory; the default template where it has none.

        Raises:
            ChatTemplateError: a file cannot be read, or its template does not compile.
        """
        return cls(TemplateFiles.read(directory), limits)

    @classmethod
    def of_source(
        cls,
        source: str,
        *,
        bos_token: str = "",
        eos_token: str = "",
        limits: RenderLimits | None = None,
    ) -> ChatTemplate:
        """Make a template from its text alone."""
        files = TemplateFiles(
            TemplateSource(source, "chat template"), bos_token=bos_token, eos_token=eos_token
        )
        return cls(files, limits)

    @contextmanager
    def probed(self, seconds: float) -> Iterator[None]:
        """Refuse every rendering in the block once it has taken so much processor time."""
        self._deadline = thread_time() + seconds
        try:
            yield
        finally:
            self._deadline = math.inf

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        template_kwargs: Mapping[str, Any] | None = None,
        of_parts: Set[str] | None = None,
    ) -> str:
        """Render a prompt.

        Args:
            messages: as `prepare_history` returns them.
            tools: OpenAI's tools; none and an empty list are the same to a template.
            add_generation_prompt: end with the opening of the assistant's turn.
            template_kwargs: further variables for the template, OpenAI's
                ``chat_template_kwargs``; its ``add_generation_prompt`` wins.
            of_parts: in place of the attribute.

        Raises:
            ChatTemplateError: the template refuses the messages, fails, exceeds its limits or
                renders nothing; or ``template_kwargs`` has a reserved key.
        """
        if self._deadline < math.inf and thread_time() > self._deadline:
            raise ChatTemplateError("the chat template takes too long")
        variables: dict[str, Any] = {
            **self.files.special_tokens,
            **NOT_GIVEN,
            "add_generation_prompt": add_generation_prompt,
            **check_template_kwargs(template_kwargs),
            "messages": _in_parts(messages, self.of_parts if of_parts is None else of_parts),
            "bos_token": self.files.bos_token,
            "eos_token": self.files.eos_token,
        }
        template = self._main
        if tools:
            variables["tools"] = tools
            template = self._with_tools
        prompt = self._run(template, variables)
        if not prompt:
            raise ChatTemplateError("the chat template makes an empty prompt of these messages")
        return prompt

    def _compile(self, source: TemplateSource) -> Template:
        environment = self._environment
        if len(source.text) > LONGEST_TEMPLATE:
            raise _not_compiled(
                f"{source.file}: the template has {len(source.text)} characters;"
                f" it may have up to {LONGEST_TEMPLATE}"
            )
        try:
            with environment.budget(compiles=True):
                code = environment.compile(source.text, source.file, source.file)
                return Template.from_code(environment, code, environment.make_globals(None))
        except TemplateSyntaxError as error:
            raise _syntax_error(error) from error
        except ChatTemplateError as error:
            raise _not_compiled(f"{source.file}: {error.message}") from error
        except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
            # Raised by Python's compiler, which has its own limits.
            raise _not_compiled(f"{source.file}: the template is too complex") from error

    def _run(self, template: Template, variables: dict[str, Any]) -> str:
        pieces: list[str] = []
        try:
            with self._environment.budget() as budget:
                size = 0
                for piece in template.root_render_func(template.new_context(variables)):
                    size += len(piece)
                    budget.allow(size)
                    pieces.append(piece)
        except ChatTemplateError:
            raise
        except TemplateSyntaxError as error:
            raise _syntax_error(error) from error
        except TemplateNotFound as error:
            raise _not_compiled(
                f"the chat template includes {clean(str(error.name))!r}, which is no file of the"
                " model directory, or not a small text file"
            ) from error
        except RecursionError:
            raise ChatTemplateError("the chat template calls itself too deeply") from None
        except MemoryError:
            raise ChatTemplateError("the chat template needs too much memory") from None
        except Exception as error:
            place = _place(error.__traceback__)
            reason = clean(str(error)) or type(error).__name__
            raise ChatTemplateError(f"the chat template failed{place}: {reason}") from error
        return "".join(pieces)


def _in_parts(
    messages: Sequence[Mapping[str, Any]], roles: Set[str]
) -> Sequence[Mapping[str, Any]]:
    """Return the messages with the text of ``roles`` as a list of one part."""
    if not roles:
        return messages
    return [
        {**message, "content": [{"type": "text", "text": message.get("content") or ""}]}
        if message.get("role") in roles and not isinstance(message.get("content"), list)
        else message
        for message in messages
    ]


def check_template_kwargs(value: object) -> dict[str, Any]:
    """Check the ``chat_template_kwargs`` of a request; None is an empty object.

    Raises:
        ChatTemplateError: the value is no object, a key is reserved, or ``add_generation_prompt``
            is no bool. ``param`` names the member.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ChatTemplateError(
            "chat_template_kwargs must be an object", param="chat_template_kwargs"
        )
    for key in value:
        if key in RESERVED:
            raise ChatTemplateError(
                f"chat_template_kwargs must not set {key}", param=f"chat_template_kwargs.{key}"
            )
    if not isinstance(value.get("add_generation_prompt", True), bool):
        raise ChatTemplateError(
            "chat_template_kwargs: add_generation_prompt must be true or false",
            param="chat_template_kwargs.add_generation_prompt",
        )
    return dict(value)


def _syntax_error(error: TemplateSyntaxError) -> ChatTemplateError:
    return _not_compiled(f"{error.name}:{error.lineno}: {clean(str(error.message))}")


def _not_compiled(message: str) -> ChatTemplateError:
    return ChatTemplateError(message, code=Code.FAILED_PRECONDITION)


def _place(traceback: TracebackType | None) -> str:
    """Return `` at FILE:LINE`` of the innermost template in a traceback."""
    place = ""
    while traceback is not None:
        template = traceback.tb_frame.f_globals.get("__jinja_template__")
        if isinstance(template, Template):
            line = template.get_corresponding_lineno(traceback.tb_lineno)
            place = f" at {template.name}:{line}"
        traceback = traceback.tb_next
    return place
