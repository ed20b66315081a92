"""Conversion of forms to grammars. Runs in the grammar process: forms can be hostile."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from calculators.llm.grammars import formats
from calculators.llm.grammars.automaton import TooComplex
from calculators.llm.grammars.ebnf import GrammarError, parse_ebnf
from calculators.llm.grammars.grammar import AnswerForm, Grammar
from calculators.llm.grammars.parameter_grammar import parameters
from calculators.llm.grammars.regular_expression import Node, RegexError, parse_regex
from calculators.llm.grammars.rules import GrammarTooLarge, Rules, literal
from calculators.llm.grammars.schema_check import check_schema
from calculators.llm.grammars.schema_keywords import SchemaError
from calculators.llm.grammars.schema_rules import schema_grammar
from calculators.llm.grammars.text_start import (
    ANY_START,
    EMPTY_START,
    VALUE_START,
    Start,
    start_of,
    start_of_text,
)
from calculators.llm.parsers.parser import ParameterForm

#: The white space that a model writes between its reasoning and what follows.
_TURN: Final = "[ \\n]{0,4}"
#: Characters of the place in an error.
_LONGEST_PATH: Final = 200


class FormError(ValueError):
    """A form without a grammar.

    Attributes:
        path: the member of the request that is wrong.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path


def grammar_of(form: AnswerForm) -> Grammar:
    """Return the grammar of a form.

    Raises:
        FormError: the form cannot be honoured.
    """
    conversion = _Conversion()
    made = conversion.convert(json.loads(form.text))
    is_spaced = made.start.is_spaced or conversion.has_spaced_rest
    if made.format["type"] == "grammar":
        return Grammar("ebnf", made.format["grammar"], is_spaced)
    tag = {"type": "structural_tag", "format": made.format}
    return Grammar("structural_tag", json.dumps(tag, ensure_ascii=False), is_spaced)


class _Made(NamedTuple):
    """A converted format, and the start of its texts."""

    format: dict[str, Any]
    start: Start


class _Conversion:
    """Replaces the leaves of a format by grammars.

    Attributes:
        has_spaced_rest: a form that follows reasoning may begin with white space.
    """

    def __init__(self) -> None:
        self.has_spaced_rest = False
        #: A form with optional reasoning has its leaves twice.
        self._leaves: dict[str, _Made] = {}

    def convert(self, part: dict[str, Any]) -> _Made:
        """Return a format with its leaves replaced.

        Raises:
            FormError: a leaf has no grammar.
        """
        kind = part["type"]
        match kind:
            case "arguments":
                return self.convert(_arguments(part))
            case "sequence":
                return self._sequence(part)
            case "const_string":
                return _Made(part, start_of_text(part["value"]))
            case "tag":
                content, start = self.convert(part["content"])
                begin = part["begin"]
                return _Made({**part, "content": content}, start_of_text(begin) if begin else start)
            case "or":
                return self._several(part, "elements")
            case "tags_with_separator":
                return self._several(part, "tags")
            case "triggered_tags":
                # The tags come in any text, and white space before them is a part of that.
                return _Made(self._several(part, "tags").format, ANY_START)
            case "any_text":
                return _Made(part, ANY_START)
            case _:
                return self._leaf(part)

    def _leaf(self, part: dict[str, Any]) -> _Made:
        key = json.dumps(part)
        leaf = self._leaves.get(key)
        if leaf is None:
            rules, start = _LEAVES[part["type"]](part)
            leaf = self._leaves[key] = _Made({"type": "grammar", "grammar": rules}, start)
        return leaf

    def _several(self, part: dict[str, Any], name: str) -> _Made:
        made = [self.convert(element) for element in part[name]]
        start = Start(
            is_spaced=any(each.start.is_spaced for each in made),
            may_be_empty=any(each.start.may_be_empty for each in made),
        )
        return _Made({**part, name: [each.format for each in made]}, start)

    def _sequence(self, part: dict[str, Any]) -> _Made:
        made: list[dict[str, Any]] = []
        start = EMPTY_START
        for element in reversed(part["elements"]):
            if element["type"] != "turn":
                converted, of_element = self.convert(element)
                made.append(converted)
                start = of_element.before(start)
            elif start.is_spaced:
                self.has_spaced_rest = True
            else:
                made.append(self.convert(formats.regex(_TURN)).format)
        return _Made({**part, "elements": made[::-1]}, start)


def _arguments(part: dict[str, Any]) -> dict[str, Any]:
    try:
        check_schema(part["json_schema"])
        return parameters(ParameterForm(**part["form"]), part["json_schema"], part["path"])
    except SchemaError as error:
        raise _located(part["path"], error) from None


def _schema(part: dict[str, Any]) -> tuple[str, Start]:
    try:
        check_schema(part["json_schema"])
        return schema_grammar(part["json_schema"]), VALUE_START
    except SchemaError as error:
        raise _located(part["path"], error) from None


def _located(path: str, error: SchemaError) -> FormError:
    place = path + error.place
    if len(place) > _LONGEST_PATH:
        place = place[:_LONGEST_PATH] + "..."
    return FormError(place, str(error))


def _regex(part: dict[str, Any]) -> tuple[str, Start]:
    return _expression(part["path"], "regular expression", parse_regex, part["pattern"])


def _ebnf(part: dict[str, Any]) -> tuple[str, Start]:
    return _expression(part["path"], "grammar", parse_ebnf, part["grammar"])


def _choice(part: dict[str, Any]) -> tuple[str, Start]:
    text = "root ::= " + " | ".join(map(literal, dict.fromkeys(part["choices"])))
    return _ebnf({"grammar": text, "path": part["path"]})


def _expression(path: str, kind: str, parse: Callable[[str], Node], text: str) -> tuple[str, Start]:
    rules = Rules()
    try:
        node = parse(text)
        return rules.text(rules.add_expression(node)), start_of(node)
    except (RegexError, GrammarError) as error:
        raise FormError(path, f"not a {kind}: {error}") from None
    except (TooComplex, GrammarTooLarge) as error:
        raise FormError(path, str(error)) from None
    except RecursionError:
        raise FormError(path, "it is nested too deeply") from None


_LEAVES: Final[dict[str, Callable[[dict[str, Any]], tuple[str, Start]]]] = {
    "json_schema": _schema,
    "regex": _regex,
    "grammar": _ebnf,
    "choice": _choice,
}
