"""`ChatTemplate` renders messages to the exact prompt; `TemplateFiles` are a model's templates.

Templates of a model directory are looked for in OpenVINO Model Server's order (OpenVINO GenAI
``tokenizer/tokenizer_impl.cpp``), with two differences: ``chat_template.jinja`` counts even when
the tokenizer has no template of its own, and the template inside ``openvino_tokenizer.xml``, a copy
from when the model was converted, comes last, so that an edit of ``tokenizer_config.json`` takes
effect.
"""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import thread_time
from types import TracebackType
from typing import Any
from xml.etree import ElementTree

from jinja2 import Template, TemplateNotFound, TemplateSyntaxError

from calculators.llm.prompt.chat_template.environment import NOT_GIVEN, TemplateEnvironment
from calculators.llm.prompt.chat_template.limits import (
    LONGEST_TEMPLATE,
    ChatTemplateError,
    RenderLimits,
    clean,
)
from calculators.llm.requests.template_arguments import RESERVED
from graphrt_base.errors import Code
from graphrt_base.regular_file import read_regular_file

#: The template of models without one: a chat has one message, which is the prompt.
DEFAULT_SOURCE = (
    "{% if messages | length != 1 or messages[0]['content'] is not string %}"
    "{{ raise_exception('this model has no chat template: it takes exactly one message,"
    " with text as its content') }}"
    "{% endif %}{{ messages[0]['content'] }}"
)
_JINJA_FILES = ("chat_template.jinja", "template.jinja")  # the second is from old exports
_JSON_FILES = ("chat_template.json", "processor_config.json", "tokenizer_config.json")
#: Further tokens that templates may name, where the tokenizer has them.
_SPECIAL_TOKENS = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_NAMED_FOLDER = "additional_chat_templates"
_TOKENIZER_MODEL = "openvino_tokenizer.xml"
_MAIN = "default"
_TOOL_USE = "tool_use"
_LARGEST_FILE = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """The text of a template, and the file that errors name."""

    text: str
    file: str


@dataclass(frozen=True, slots=True)
class TemplateFiles:
    """The files of a model directory that determine prompts.

    Attributes:
        main: the template of chats.
        tool_use: the template of chats with tools; None where ``main`` serves these too.
        named: further templates by name, as ``additional_chat_templates/NAME.jinja`` holds them.
        bos_token: text of the token at the beginning of sequences; empty where there is none.
        eos_token: text of the token at their end.
        special_tokens: texts of further tokens by name, ``pad_token`` say; as Hugging Face's
            tokenizers have them, ``extra_special_tokens`` too.
        response_template: how Hugging Face's tokenizer takes answers apart; None: it does not say.
        directory: the directory that ``{% include %}`` reads from; None: there is none.
    """

    main: TemplateSource
    tool_use: TemplateSource | None = None
    named: Mapping[str, TemplateSource] = field(default_factory=dict)
    bos_token: str = ""
    eos_token: str = ""
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    response_template: Mapping[str, Any] | None = None
    directory: Path | None = None

    @property
    def is_default(self) -> bool:
        """True if the model has no template of its own."""
        return self.main.text is DEFAULT_SOURCE

    @classmethod
    def read(cls, directory: str | Path) -> TemplateFiles:
        """Read a model directory.

        Raises:
            ChatTemplateError: the directory or a file cannot be read, or a file has another content
                than its name says.
        """
        directory = Path(directory)
        if not directory.is_dir():
            raise _broken(directory.name, "there is no such directory")
        # The last one that is read wins: a file of its own before a member of another, as in
        # transformers.
        named: dict[str, TemplateSource] = {}
        configs = {name: _read_json(directory / name) for name in _JSON_FILES}
        for name in reversed(_JSON_FILES):
            named.update(_templates_of(configs[name].get("chat_template"), name))
        if _MAIN not in named:
            named.update(_templates_of_tokenizer(directory / _TOKENIZER_MODEL))
        for path in sorted((directory / _NAMED_FOLDER).glob("*.jinja")):
            named.update(_template_of(path, path.stem, f"{_NAMED_FOLDER}/{path.name}"))
        for file in reversed(_JINJA_FILES):
            named.update(_template_of(directory / file, _MAIN, file))
        main = named.pop(_MAIN, None)
        if main is None:
            main = TemplateSource(DEFAULT_SOURCE, "the default template")
        tokens = configs["tokenizer_config.json"]
        special = _read_json(directory / "special_tokens_map.json")
        return cls(
            main=main,
            tool_use=named.get(_TOOL_USE),
            named=named,
            bos_token=_token_text(tokens, special, "bos_token"),
            eos_token=_token_text(tokens, special, "eos_token"),
            special_tokens=_special_tokens(tokens, special),
            response_template=tokens.get("response_template"),
            directory=directory,
        )


def _broken(file: str, reason: str) -> ChatTemplateError:
    return ChatTemplateError(f"{file}: {clean(reason)}", code=Code.FAILED_PRECONDITION)


def _read_text(path: Path, file: str) -> str | None:
    """Read a file; None where there is no such file."""
    try:
        return read_regular_file(path, _LARGEST_FILE).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise _broken(file, f"is larger than {_LARGEST_FILE >> 20} MiB") from None
        raise _broken(file, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _broken(file, f"is not UTF-8 at byte {error.start}") from error


def _template_of(path: Path, name: str, file: str) -> dict[str, TemplateSource]:
    text = _read_text(path, file)
    return {name: TemplateSource(text, file)} if text and not text.isspace() else {}


def _read_json(path: Path) -> dict[str, Any]:
    text = _read_text(path, path.name)
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise _broken(f"{path.name}:{error.lineno}", f"is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise _broken(path.name, "is nested too deeply") from error
    if not isinstance(value, dict):
        raise _broken(path.name, "is not a JSON object")
    return value


def _templates_of(value: Any, file: str) -> dict[str, TemplateSource]:
    """Return the templates in a member ``chat_template``: one text, or several with names."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        return {_MAIN: TemplateSource(value, file)}
    if isinstance(value, dict):
        value = [{"name": name, "template": text} for name, text in value.items()]
    templates = {}
    for entry in value if isinstance(value, list) else [value]:
        entry = entry if isinstance(entry, dict) else {}
        name, text = entry.get("name"), entry.get("template")
        if not isinstance(name, str) or not isinstance(text, str):
            raise _broken(
                file, 'chat_template is neither a text nor a list of {"name", "template"} objects'
            )
        templates[name] = TemplateSource(text, f"{file}, template {name}")
    return templates


def _templates_of_tokenizer(path: Path) -> dict[str, TemplateSource]:
    """Return the templates in the ``rt_info`` of a converted tokenizer."""
    text = _read_text(path, path.name)
    if text is None:
        return {}
    try:
        found = ElementTree.fromstring(text).find("rt_info/chat_template")
    except ElementTree.ParseError as error:
        raise _broken(path.name, f"is not XML: {error}") from error
    if found is None:
        return {}
    templates = {_MAIN: found.get("value"), **{each.tag: each.get("value") for each in found}}
    return {name: TemplateSource(value, path.name) for name, value in templates.items() if value}


def _token_text(tokens: dict[str, Any], special: dict[str, Any], name: str) -> str:
    for value in (tokens.get(name), special.get(name)):
        content = value.get("content") if isinstance(value, dict) else value
        if isinstance(content, str):
            return content
    return ""


def _special_tokens(tokens: dict[str, Any], special: dict[str, Any]) -> dict[str, str]:
    extra = tokens.get("extra_special_tokens")
    if not isinstance(extra, dict):  # some files have a list of texts, without names
        extra = {}
    names = (*_SPECIAL_TOKENS, *extra)
    texts = {name: _token_text({**extra, **tokens}, special, name) for name in names}
    return {name: text for name, text in texts.items() if text}


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
        file: str = "chat template",
    ) -> ChatTemplate:
        """Make a template from its text alone.

        Args:
            file: the place of the text, for errors.

        Raises:
            ChatTemplateError: it does not compile.
        """
        files = TemplateFiles(
            TemplateSource(source, file), bos_token=bos_token, eos_token=eos_token
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
        # The order matters: a request's variables replace those before them, and none after them.
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
                budget.given = variables
                size = 0
                # Not ``render``, which would join gigabytes before their size is known.
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
                f"the chat template includes {clean(str(error.name))!r}, which is not a file of the"
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
        ChatTemplateError: the value is not an object, a key is reserved, or
            ``add_generation_prompt`` is not a bool. ``param`` names the member.
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
