"""Conversion of forms to grammars. Runs in the grammar process: forms can be hostile.

A form is one grammar, so that its parts share their rules: what a model's calls have in common is
looked up in the vocabulary once, whatever the number of tools. Arguments that a model writes one by
one, not as a JSON object, are a format of their own (`parameters`). `Start` tells whether the white
space that models write before an answer may belong to the form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from calculators.kit.requests import fields
from calculators.llm.grammars import formats
from calculators.llm.grammars.automaton import (
    Automaton,
    NoTextError,
    TooComplex,
    make_automaton,
    smallest,
)
from calculators.llm.grammars.ebnf import GrammarError, parse_ebnf
from calculators.llm.grammars.formats import Format
from calculators.llm.grammars.grammar import NO_SPECIAL_LETTERS, AnswerForm, Grammar, SpecialLetters
from calculators.llm.grammars.lark import parse_lark
from calculators.llm.grammars.lark_reader import UnsupportedGrammar
from calculators.llm.grammars.regular_expression import (
    ANY_TEXT,
    LAST,
    Alternation,
    Both,
    Boundary,
    CharClass,
    Concatenation,
    Node,
    Not,
    RegexError,
    Repeat,
    UnsupportedRegex,
    parse_regex,
    parse_token,
    text_node,
)
from calculators.llm.grammars.rules import (
    GrammarTooLarge,
    Rules,
    UnboundedGrammarError,
    letters,
    literal,
)
from calculators.llm.grammars.schema_document import Located, References, SchemaError, check_schema
from calculators.llm.grammars.schema_rules import SchemaRules
from calculators.llm.parsers.parser import ParameterForm

#: Letters that models write between their reasoning and an answer.
_SPACES: Final = tuple(map(ord, "\t\n\r "))


class Start(NamedTuple):
    """The start of the texts of a form.

    Attributes:
        is_spaced: it may be white space, which belongs to the form.
        may_be_empty: a text may be empty, so it begins with what follows.
    """

    is_spaced: bool
    may_be_empty: bool

    def before(self, rest: Start) -> Start:
        """Return the start of this form with another one after it."""
        if not self.may_be_empty:
            return self
        return Start(self.is_spaced or rest.is_spaced, rest.may_be_empty)


#: That of no text at all.
EMPTY_START: Final = Start(is_spaced=False, may_be_empty=True)
#: That of any text: it stays any text without its white space.
ANY_START: Final = Start(is_spaced=False, may_be_empty=True)
#: That of a JSON value.
VALUE_START: Final = Start(is_spaced=False, may_be_empty=False)


def start_of_text(text: str) -> Start:
    """Return the start of a text."""
    return Start(is_spaced=text[:1].isspace(), may_be_empty=not text)


def start_of(node: Node) -> Start:
    """Return the start of texts that match an expression.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return _start(node, {})


def _start(node: Node, known: dict[int, Start]) -> Start:
    found = known.get(id(node))  # the parts of a grammar share their rules
    if found is not None:
        return found
    match node:
        case CharClass(ranges):
            spaced = any(low <= each <= high for low, high in ranges for each in _SPACES)
            found = Start(spaced, may_be_empty=False)
        case Concatenation(items):
            found = EMPTY_START
            for item in reversed(items):
                found = _start(item, known).before(found)
        case Alternation(items):
            starts = [_start(item, known) for item in items]
            found = Start(
                is_spaced=any(each.is_spaced for each in starts),
                may_be_empty=any(each.may_be_empty for each in starts),
            )
        case Boundary():
            found = EMPTY_START
        case Both(one, other):
            first, second = _start(one, known), _start(other, known)
            found = Start(
                first.is_spaced and second.is_spaced, first.may_be_empty and second.may_be_empty
            )
        case Repeat(item, low, high):
            found = EMPTY_START if high == 0 else _start(item, known)
            found = Start(found.is_spaced, found.may_be_empty or low == 0)
        case _:
            found = Start(is_spaced=True, may_be_empty=True)
    known[id(node)] = found
    return found


#: Optional parameters of one tool: without a required one the format grows with their square.
_MAX_OPTIONAL: Final = 32
_MAX_PARTS: Final = 64
#: Keywords of an object that have no place where parameters are written one by one.
_WITHOUT_PLACE: Final = (
    "anyOf", "oneOf", "not", "if", "dependentRequired", "dependentSchemas", "dependencies",
    "patternProperties", "propertyNames", "minProperties", "maxProperties",
)  # fmt: skip


def parameters(
    form: ParameterForm,
    schema: Mapping[str, Any],
    path: str,
    leave_out: Callable[[str, str], None],
    *,
    is_strict: bool = False,
) -> Format:
    """Return the format of all required parameters, followed by any of the optional ones.

    Args:
        leave_out: called with the place of a keyword that is not enforced, and the reason.

    Raises:
        SchemaError: the schema does not describe parameters.
    """
    properties, required = _properties(schema, leave_out)
    optional = [name for name in properties if name not in required]
    if len(optional) > _MAX_OPTIONAL:
        leave_out("", f"more than {_MAX_OPTIONAL} optional parameters cannot be written")
        optional = optional[:_MAX_OPTIONAL]
    written = {
        name: _parameter(form, name, inner, schema, path + place, is_strict)
        for name, (inner, place) in properties.items()
    }
    between = [formats.const(form.separator)] if form.separator else []
    if not between or required:
        elements: list[Format] = []
        for name in required:
            elements += [*(between if elements else ()), written[name]]
        elements += [_maybe(formats.sequence(*between, written[name])) for name in optional]
        return formats.sequence(*elements) if elements else _nothing()
    # Nothing is required, so any parameter may be the first.
    starts = [
        formats.sequence(
            written[name],
            *(_maybe(formats.sequence(*between, written[other])) for other in optional[i + 1 :]),
        )
        for i, name in enumerate(optional)
    ]
    return formats.one_of(*starts, _nothing())


def _properties(
    schema: Mapping[str, Any], leave_out: Callable[[str, str], None]
) -> tuple[dict[str, Located], dict[str, None]]:
    """Return the schemas of the parameters, and the names of the required ones."""
    properties: dict[str, Located] = {}
    required: dict[str, None] = {}
    for part, place in _parts(schema):
        for name in _WITHOUT_PLACE:
            if name in part:
                leave_out(f"{place}.{name}", "this model writes parameters one by one")
        for name, inner in (part.get("properties") or {}).items():
            where = f"{place}.properties.{name}"
            known = properties.get(name)
            properties[name] = (inner if known is None else {"allOf": [known[0], inner]}, where)
        required.update(dict.fromkeys(part.get("required") or ()))
        for name in required:
            properties.setdefault(name, (True, f"{place}.required"))
    for name, (_, place) in list(properties.items()):
        if not name or not all(letter.isalnum() or letter in "_.-" for letter in name):
            if name in required:
                raise SchemaError(place, f"{fields.describe(name)} cannot be written in a call")
            leave_out(place, "the name cannot be written in a call")
            del properties[name]
    return properties, required


def _parts(schema: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """Return a schema with all that ``$ref`` and ``allOf`` add to it."""
    references = References(schema)
    found: list[tuple[Mapping[str, Any], str]] = []
    waiting: list[Located] = [(schema, "")]
    while waiting and len(found) < _MAX_PARTS:
        part, place = waiting.pop(0)
        if not isinstance(part, Mapping):
            continue
        found.append((part, place))
        if "$ref" in part:
            where = f"{place}.$ref"
            waiting.append((references.target(part, part["$ref"], where), where))
        waiting += ((each, f"{place}.allOf[{i}]") for i, each in enumerate(part.get("allOf") or ()))
    return found


def _parameter(
    form: ParameterForm,
    name: str,
    schema: Any,
    root: Mapping[str, Any],
    path: str,
    is_strict: bool,
) -> Format:
    begin = form.begin.replace("NAME", name)
    if form.text_end and _is_plain_text(schema):
        return formats.tag(begin + form.text_begin, formats.any_text(), form.text_end)
    if isinstance(schema, dict):
        # References start at the root of the tool's schema.
        schema = {**{key: root[key] for key in ("$defs", "definitions") if key in root}, **schema}
    return formats.tag(begin, formats.json_schema(schema, path, is_strict=is_strict), form.end)


def _is_plain_text(schema: Any) -> bool:
    """Return True if the value may be any string. Strings with constraints are written as JSON."""
    limits = ("enum", "const", "pattern", "format", "minLength", "maxLength", "anyOf", "$ref")
    return (
        isinstance(schema, dict)
        and schema.get("type") == "string"
        and not any(name in schema for name in (*limits, "oneOf", "allOf"))
    )


def _maybe(part: Format) -> Format:
    return formats.one_of(part, _nothing())


def _nothing() -> Format:
    return formats.regex("")


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


class Notice(NamedTuple):
    """A part of a form that the grammar does not enforce, and why."""

    path: str
    why: str


class FormGrammar(NamedTuple):
    """The grammar of a form, and what of the form it does not enforce."""

    grammar: Grammar
    notices: tuple[Notice, ...]


def form_grammar(form: AnswerForm, special: SpecialLetters = NO_SPECIAL_LETTERS) -> FormGrammar:
    """Return the grammar of a form for a model with these special tokens.

    Raises:
        FormError: the form cannot be honoured.
    """
    conversion = _Conversion(special)
    try:
        part = json.loads(form.text)
        made = conversion.convert(part)
        rules = conversion.rules
        root = made.rule
        # The library knows one end token, and many models have several (decision 0088).
        if special.ends and part["type"] != "triggered_tags":
            ends = tuple((ord(end), ord(end)) for end in sorted(special.ends))
            may_end = rules.add(f'"" | {letters(ends)}')
            root = rules.add(f"{root} {may_end}")
        text = rules.text(root)
    except (GrammarTooLarge, UnboundedGrammarError) as error:
        raise FormError("", str(error)) from None
    is_spaced = made.start.is_spaced or conversion.has_spaced_rest
    return FormGrammar(Grammar(text, is_spaced), tuple(conversion.notices))


def grammar_of(form: AnswerForm) -> Grammar:
    """Return the grammar of a form for a model without special tokens.

    Raises:
        FormError: the form cannot be honoured.
    """
    return form_grammar(form).grammar


class _Made(NamedTuple):
    """The rule of a format, and the start of its texts."""

    rule: str
    start: Start


class _Conversion:
    """Adds the rules of a format's parts.

    Attributes:
        has_spaced_rest: a form that follows reasoning may begin with white space.
    """

    def __init__(self, special: SpecialLetters) -> None:
        self.rules = Rules()
        self.notices: dict[Notice, None] = {}
        self.has_spaced_rest = False
        self._special = special
        #: A form with optional reasoning has its leaves twice.
        self._leaves: dict[str, _Made] = {}

    def convert(self, part: Format) -> _Made:
        """Add the rules of a format.

        Raises:
            FormError: a part has no grammar.
        """
        match part["type"]:
            case "arguments":
                return self.convert(self._arguments(part))
            case "text_argument":
                return self._text_argument(part)
            case "sequence":
                return self._sequence(part["elements"])
            case "const_string":
                return self._text(part["value"])
            case "tag":
                return self._tag(part)
            case "or":
                return self._one_of([self.convert(each) for each in part["elements"]])
            case "tags_with_separator":
                return self._tags(part)
            case "triggered_tags":
                return self._triggered(part, ())
            case "any_text":
                return self._any_text(part, ())
            case _:
                return self._leaf(part)

    def _leaf(self, part: dict[str, Any]) -> _Made:
        key = json.dumps(part)
        leaf = self._leaves.get(key)
        if leaf is None:
            leaf = self._leaves[key] = _LEAVES[part["type"]](self, part)
        return leaf

    def _text(self, text: str) -> _Made:
        """Add the rule of a text of the frame, in which special tokens are themselves."""
        if any(ord(letter) > LAST for letter in text):
            raise FormError("", "a text of it has a letter that no answer has")
        return _Made(self.rules.add(literal(self._special.written(text))), start_of_text(text))

    def _sequence(self, elements: Sequence[dict[str, Any]], ends: Sequence[str] = ()) -> _Made:
        """Add the rule of one after the other; ``ends`` are the texts that end the last."""
        made: list[str] = []
        start = EMPTY_START
        for number, element in reversed([*enumerate(elements)]):
            if element["type"] == "turn":
                if start.is_spaced:
                    # The form binds the answer and not the reasoning; white space between them
                    # belongs to neither (decision 0018).
                    self.has_spaced_rest = True
                    continue
                made.append(self.rules.add_expression(parse_regex(_TURN)))
                continue
            is_last = number == len(elements) - 1
            converted = self._ended(element, ends) if is_last and ends else self.convert(element)
            made.append(converted.rule)
            start = converted.start.before(start)
        return _Made(self.rules.add(" ".join(made[::-1]) or '""'), start)

    def _ended(self, part: dict[str, Any], ends: Sequence[str]) -> _Made:
        """Add the rule of a format and of one of the texts that end it."""
        match part["type"]:
            case "any_text" if all(ends):
                return self._any_text(part, ends)
            case "triggered_tags" if all(ends):
                return self._triggered(part, ends)
            case "sequence":
                return self._sequence(part["elements"], ends)
            case _:
                content, end = self.convert(part), self._one_of([*map(self._text, ends)])
                rule = self.rules.add(f"{content.rule} {end.rule}")
                return _Made(rule, content.start.before(end.start))

    def _tag(self, part: dict[str, Any]) -> _Made:
        end = part["end"]
        ends = end if isinstance(end, list) else [end]
        content = self._ended(part["content"], ends)
        if not part["begin"]:
            return content
        begin = self._text(part["begin"])
        return _Made(self.rules.add(f"{begin.rule} {content.rule}"), begin.start)

    def _one_of(self, made: Sequence[_Made]) -> _Made:
        start = Start(
            is_spaced=any(each.start.is_spaced for each in made),
            may_be_empty=any(each.start.may_be_empty for each in made),
        )
        rules = dict.fromkeys(each.rule for each in made)
        return _Made(self.rules.add(" | ".join(rules)), start)

    def _tags(self, part: dict[str, Any]) -> _Made:
        tag = self._one_of([self.convert(each) for each in part["tags"]])
        rule = tag.rule
        if not part.get("stop_after_first"):
            separator = self._text(part["separator"]).rule
            more = self.rules.reserve()
            self.rules.define(more, f'"" | {separator} {rule} {more}')
            rule = self.rules.add(f"{rule} {more}")
        if part.get("at_least_one"):
            return _Made(rule, tag.start)
        return _Made(self.rules.add(f'"" | {rule}'), tag.start._replace(may_be_empty=True))

    def _triggered(self, part: dict[str, Any], ends: Sequence[str]) -> _Made:
        """Add the rule of any text, in which a tag follows where its trigger is written."""
        pairs: list[str] = []
        for trigger in part["triggers"]:
            # Of the tag's beginning the trigger is written by then.
            tags = [
                self.convert({**tag, "begin": tag["begin"][len(trigger) :]})
                for tag in part["tags"]
                if tag["begin"].startswith(trigger)
            ]
            if tags:
                text = literal(self._special.written(trigger))
                pairs.append(f"({text}, {self._one_of(tags).rule})")
        loops = not part.get("stop_after_first")
        rule = self._dispatch(pairs, ends, part.get("excludes", ()), loops=loops)
        if part.get("at_least_one"):
            first = self._one_of([self.convert(tag) for tag in part["tags"]]).rule
            rule = self.rules.add(f"{first} {rule}" if loops else first)
        # White space before the tags is a part of the text.
        return _Made(rule, ANY_START)

    def _any_text(self, part: dict[str, Any], ends: Sequence[str]) -> _Made:
        excludes = part.get("excludes", ())
        if not ends and not excludes:
            name = self.rules.reserve()
            self.rules.define(name, f'"" | {letters(((0, LAST),))} {name}')
            return _Made(name, ANY_START)
        written = "".join(map(self._special.written, ends))
        special = (each for each in self._special.letters.values() if each not in written)
        return _Made(self._dispatch([], ends, [*excludes, *special], loops=True), ANY_START)

    def _dispatch(
        self, pairs: Sequence[str], ends: Sequence[str], excludes: Iterable[str], *, loops: bool
    ) -> str:
        """Add the library's rule of any text."""
        arguments = [
            *pairs,
            f"stop_eos={'false' if ends else 'true'}",
            f"stop_str=({', '.join(literal(self._special.written(end)) for end in ends)})",
            f"loop_after_dispatch={'true' if loops else 'false'}",
        ]
        # The library heeds them only in a text that goes on after the tags.
        refused = ", ".join(map(literal, excludes)) if loops else ""
        return self.rules.add(f"TagDispatch({', '.join([*arguments, f'excludes=({refused})'])})")

    def _arguments(self, part: dict[str, Any]) -> dict[str, Any]:
        path, is_strict = part["path"], part.get("strict", False)

        def leave_out(place: str, why: str) -> None:
            if is_strict:
                raise SchemaError(place, why)
            self.notices[Notice(_located(path, place), why)] = None

        try:
            check_schema(part["json_schema"])
            return parameters(
                ParameterForm(**part["form"]),
                part["json_schema"],
                path,
                leave_out,
                is_strict=is_strict,
            )
        except SchemaError as error:
            raise FormError(_located(path, error.place), str(error)) from None

    def _text_argument(self, part: dict[str, Any]) -> _Made:
        """Add the rule of the arguments whose one text follows a grammar."""
        form = None if part["form"] is None else ParameterForm(**part["form"])
        # The text cannot have the mark that ends it.
        mark = "" if form is None else form.text_end
        try:
            automaton = _text_language(part["syntax"], part["definition"], mark)
        except (UnsupportedGrammar, UnsupportedRegex, TooComplex) as error:
            self.notices[Notice(part["path"], str(error))] = None
            return self.convert(part["any"])
        except RecursionError:
            raise FormError(part["path"], "it is nested too deeply") from None
        except (GrammarError, RegexError) as error:
            raise FormError(part["path"], f"not a grammar ({part['syntax']}): {error}") from None
        except NoTextError:
            raise FormError(part["path"], "no text fits the grammar") from None
        rules = self.rules
        if form is None:
            name = f'"{part["name"]}"'
            begin = rules.add_expression(parse_token(rf"\{{\n?[ ]{{0,4}}{name}[ ]?:[ ]?"))
            end = rules.add_expression(parse_token(r"\n?[ ]?\}"))
            return _Made(rules.add(f"{begin} {rules.add_string(automaton)} {end}"), VALUE_START)
        begin = self._text(form.begin.replace("NAME", part["name"]) + form.text_begin).rule
        content = rules.add_automaton(automaton) if mark else rules.add_string(automaton)
        end = self._text(mark or form.end).rule
        return _Made(rules.add(f"{begin} {content} {end}"), VALUE_START)

    def schema(self, part: Format) -> _Made:
        """Add the rules of a JSON schema."""
        path = part["path"]
        try:
            check_schema(part["json_schema"])
            builder = SchemaRules(
                part["json_schema"], self.rules, is_strict=part.get("strict", False)
            )
            rule = builder.root()
        except SchemaError as error:
            raise FormError(_located(path, error.place), str(error)) from None
        for place, why in builder.notices.items():
            self.notices[Notice(_located(path, place), why)] = None
        return _Made(rule, VALUE_START)

    def regex(self, part: Format) -> _Made:
        """Add the rules of a regular expression."""
        return self._expression(part["path"], "regular expression", parse_regex, part["pattern"])

    def ebnf(self, part: Format) -> _Made:
        """Add the rules of a client's grammar."""
        return self._expression(part["path"], "grammar", parse_ebnf, part["grammar"])

    def choice(self, part: Format) -> _Made:
        """Add the rule of one of some texts."""
        text = "root ::= " + " | ".join(map(literal, dict.fromkeys(part["choices"])))
        return self.ebnf({"grammar": text, "path": part["path"]})

    def _expression(self, path: str, kind: str, parse: Callable[[str], Node], text: str) -> _Made:
        try:
            node = parse(text)
            return _Made(self.rules.add_expression(node), start_of(node))
        except (RegexError, GrammarError) as error:
            raise FormError(path, f"not a {kind}: {error}") from None
        except (TooComplex, NoTextError, GrammarTooLarge) as error:
            raise FormError(path, str(error)) from None
        except RecursionError:
            raise FormError(path, "it is nested too deeply") from None


def _text_language(syntax: str, definition: str, mark: str) -> Automaton:
    """Return the automaton of the texts of a grammar that do not have a mark; "": any."""
    node = parse_lark(definition) if syntax == "lark" else parse_token(definition)
    if mark:
        node = Both(node, Not(Concatenation((ANY_TEXT, text_node(mark), ANY_TEXT))))
    return smallest(make_automaton(node))


def _located(path: str, place: str) -> str:
    place = path + place
    return place if len(place) <= _LONGEST_PATH else place[:_LONGEST_PATH] + "..."


_LEAVES: Final[dict[str, Callable[[_Conversion, dict[str, Any]], _Made]]] = {
    "json_schema": _Conversion.schema,
    "regex": _Conversion.regex,
    "grammar": _Conversion.ebnf,
    "choice": _Conversion.choice,
}
