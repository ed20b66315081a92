"""`TemplateFiles`: the chat templates of a model directory.

The order is OpenVINO Model Server's (OpenVINO GenAI ``tokenizer/tokenizer_impl.cpp``), with two
differences: ``chat_template.jinja`` counts even when the tokenizer has no template of its own, and
the template inside ``openvino_tokenizer.xml``, a copy from when the model was converted, comes
last, so that an edit of ``tokenizer_config.json`` takes effect.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from calculators.llm.prompt.chat_template.errors import ChatTemplateError, clean
from graph_runtime.errors import Code
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
        directory: the directory that ``{% include %}`` reads from; None: there is none.
    """

    main: TemplateSource
    tool_use: TemplateSource | None = None
    named: Mapping[str, TemplateSource] = field(default_factory=dict)
    bos_token: str = ""
    eos_token: str = ""
    special_tokens: Mapping[str, str] = field(default_factory=dict)
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
