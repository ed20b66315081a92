"""Conversion of forms to grammars. Runs in the grammar process: forms can be hostile."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from calculators.llm.grammars.automaton import TooComplex
from calculators.llm.grammars.ebnf import GrammarError, parse_ebnf
from calculators.llm.grammars.grammar import AnswerForm, Grammar
from calculators.llm.grammars.parameter_grammar import parameters
from calculators.llm.grammars.regular_expression import Node, RegexError, parse_regex
from calculators.llm.grammars.rules import GrammarTooLarge, Rules, literal
from calculators.llm.grammars.schema_check import check_schema
from calculators.llm.grammars.schema_keywords import SchemaError
from calculators.llm.grammars.schema_rules import schema_grammar
from calculators.llm.parsers.parser import ParameterForm

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
    made = _converted(json.loads(form.text), {})
    if made["type"] == "grammar":
        return Grammar("ebnf", made["grammar"])
    tag = {"type": "structural_tag", "format": made}
    return Grammar("structural_tag", json.dumps(tag, ensure_ascii=False))


def _converted(part: dict[str, Any], known: dict[str, str]) -> dict[str, Any]:
    """Replace the leaves of a format by grammars.

    ``known``: rules by leaf. A form with optional reasoning has its leaves twice.
    """
    kind = part["type"]
    if kind in _LEAVES:
        key = json.dumps(part)
        rules = known.get(key)
        if rules is None:
            rules = known[key] = _LEAVES[kind](part)
        return {"type": "grammar", "grammar": rules}
    if kind == "arguments":
        return _converted(_arguments(part), known)
    made = dict(part)
    for name in ("elements", "tags"):
        if name in made:
            made[name] = [_converted(each, known) for each in made[name]]
    if "content" in made:
        made["content"] = _converted(made["content"], known)
    return made


def _arguments(part: dict[str, Any]) -> dict[str, Any]:
    try:
        check_schema(part["json_schema"])
        return parameters(ParameterForm(**part["form"]), part["json_schema"], part["path"])
    except SchemaError as error:
        raise _located(part["path"], error) from None


def _schema(part: dict[str, Any]) -> str:
    try:
        check_schema(part["json_schema"])
        return schema_grammar(part["json_schema"])
    except SchemaError as error:
        raise _located(part["path"], error) from None


def _located(path: str, error: SchemaError) -> FormError:
    place = path + error.place
    if len(place) > _LONGEST_PATH:
        place = place[:_LONGEST_PATH] + "..."
    return FormError(place, str(error))


def _regex(part: dict[str, Any]) -> str:
    return _expression(part["path"], "regular expression", parse_regex, part["pattern"])


def _ebnf(part: dict[str, Any]) -> str:
    return _expression(part["path"], "grammar", parse_ebnf, part["grammar"])


def _choice(part: dict[str, Any]) -> str:
    text = "root ::= " + " | ".join(map(literal, dict.fromkeys(part["choices"])))
    return _ebnf({"grammar": text, "path": part["path"]})


def _expression(path: str, kind: str, parse: Callable[[str], Node], text: str) -> str:
    rules = Rules()
    try:
        return rules.text(rules.add_expression(parse(text)))
    except (RegexError, GrammarError) as error:
        raise FormError(path, f"not a {kind}: {error}") from None
    except (TooComplex, GrammarTooLarge) as error:
        raise FormError(path, str(error)) from None
    except RecursionError:
        raise FormError(path, "it is nested too deeply") from None


_LEAVES: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "json_schema": _schema,
    "regex": _regex,
    "grammar": _ebnf,
    "choice": _choice,
}
