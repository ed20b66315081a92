"""Conversion of forms to grammars. Runs in the grammar process: forms can be hostile.

A form is one grammar, so that its parts share their rules: what a model's calls have in common is
looked up in the vocabulary once, whatever the number of tools. Arguments that a model writes one by
one, not as a JSON object, are a format of their own (`parameters`). `Start` tells whether the white
space that models write before an answer may belong to the form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from calculators.language.generation_request import TextGrammar
from calculators.llm.grammars.automaton import NoTextError, TooComplex, make_automaton, smallest
from calculators.llm.grammars.ebnf import GrammarError, parse_ebnf
from calculators.llm.grammars.formats import Format, Tool
from calculators.llm.grammars.grammar import NO_SPECIAL_LETTERS, AnswerForm, Grammar, SpecialLetters
from calculators.llm.grammars.lark import parse_lark
from calculators.llm.grammars.lark_reader import UnsupportedGrammar
from calculators.llm.grammars.notation import (
    JSON,
    Notation,
    arguments_notation,
    frame_of,
    object_begin,
)
from calculators.llm.grammars.object_rules import object_of
from calculators.llm.grammars.raw_text import RawStrings, dispatch
from calculators.llm.grammars.regular_expression import (
    LAST,
    Alternation,
    Both,
    Boundary,
    CharClass,
    Concatenation,
    Node,
    RegexError,
    Repeat,
    UnsupportedRegex,
    parse_regex,
    parse_token,
)
from calculators.llm.grammars.rules import (
    GrammarTooLarge,
    Rules,
    UnboundedGrammarError,
    letters,
    literal,
)
from calculators.llm.grammars.schema_document import SchemaError, check_schema
from calculators.llm.grammars.schema_rules import SchemaRules
from calculators.llm.parsers.families import CallSyntax
from calculators.llm.parsers.pattern import marks, segments

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


#: The white space that a model writes between its reasoning and what follows.
_TURN: Final = "[ \\n]{0,4}"
#: The ids of calls that a model makes up: many templates refuse others (Mistral).
_ID: Final = parse_regex("[0-9A-Za-z]{9}")
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
        if special.ends and not (part["type"] == "triggered_tags" or part.get("is_free")):
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
        self.special = special
        #: A form with optional reasoning has its leaves twice.
        self._leaves: dict[str, _Made] = {}

    def convert(self, part: Format) -> _Made:
        """Add the rules of a format.

        Raises:
            FormError: a part has no grammar.
        """
        match part["type"]:
            case "sequence":
                return self._sequence(part["elements"])
            case "const_string":
                return self.text(part["value"])
            case "tag":
                return self._tag(part)
            case "or":
                return self.one_of([self.convert(each) for each in part["elements"]])
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

    def text(self, text: str) -> _Made:
        """Add the rule of a text of the frame, in which special tokens are themselves."""
        if any(ord(letter) > LAST for letter in text):
            raise FormError("", "a text of it has a letter that no answer has")
        return _Made(self.rules.add(literal(self.special.written(text))), start_of_text(text))

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
                content, end = self.convert(part), self.one_of([*map(self.text, ends)])
                rule = self.rules.add(f"{content.rule} {end.rule}")
                return _Made(rule, content.start.before(end.start))

    def _tag(self, part: dict[str, Any]) -> _Made:
        end = part["end"]
        ends = end if isinstance(end, list) else [end]
        content = self._ended(part["content"], ends)
        if not part["begin"]:
            return content
        begin = self.text(part["begin"])
        return _Made(self.rules.add(f"{begin.rule} {content.rule}"), begin.start)

    def one_of(self, made: Sequence[_Made]) -> _Made:
        start = Start(
            is_spaced=any(each.start.is_spaced for each in made),
            may_be_empty=any(each.start.may_be_empty for each in made),
        )
        rules = dict.fromkeys(each.rule for each in made)
        return _Made(self.rules.add(" | ".join(rules)), start)

    def _tags(self, part: dict[str, Any]) -> _Made:
        tag = self.one_of([self.convert(each) for each in part["tags"]])
        rule = tag.rule
        if not part.get("stop_after_first"):
            separator = self.text(part["separator"]).rule
            more = self.rules.reserve()
            self.rules.define(more, f'"" | {separator} {rule} {more}')
            rule = self.rules.add(f"{rule} {more}")
        if part.get("at_least_one"):
            return _Made(rule, tag.start)
        return _Made(self.rules.add(f'"" | {rule}'), tag.start._replace(may_be_empty=True))

    def _triggered(self, part: dict[str, Any], ends: Sequence[str]) -> _Made:
        """Add the rule of any text, in which a tag follows where its trigger is written."""
        pairs: list[tuple[str, str]] = []
        for trigger in part["triggers"]:
            # Of the tag's beginning the trigger is written by then.
            tags = [
                self.convert({**tag, "begin": tag["begin"][len(trigger) :]})
                for tag in part["tags"]
                if tag["begin"].startswith(trigger)
            ]
            if tags:
                pairs.append((self.special.written(trigger), self.one_of(tags).rule))
        loops = not part.get("stop_after_first")
        ends = [*map(self.special.written, ends)]
        excludes = part.get("excludes", ())
        rule = dispatch(self.rules, pairs, ends, excludes, loops=loops)
        if part.get("at_least_one"):
            first = self.one_of([self.convert(tag) for tag in part["tags"]]).rule
            rule = self.rules.add(f"{first} {rule}" if loops else first)
        # White space before the tags is a part of the text.
        return _Made(rule, ANY_START)

    def _any_text(self, part: dict[str, Any], ends: Sequence[str]) -> _Made:
        excludes = part.get("excludes", ())
        if not ends and not excludes:
            name = self.rules.reserve()
            self.rules.define(name, f'"" | {letters(((0, LAST),))} {name}')
            return _Made(name, ANY_START)
        ends = [*map(self.special.written, ends)]
        excludes = [*excludes, *self.special.others("".join(ends))]
        return _Made(dispatch(self.rules, (), ends, excludes, loops=True), ANY_START)

    def calls(self, part: Format) -> _Made:
        """Add the rules of calls of tools."""
        return _Calls(self, part).made()

    def schema(self, part: Format) -> _Made:
        """Add the rules of a JSON schema."""
        strict = part.get("strict", False)
        return _Made(self.values(part["json_schema"], part["path"], strict), VALUE_START)

    def values(self, schema: Any, path: str, is_strict: bool, notation: Notation = JSON) -> str:
        """Add the rule of the values that a schema allows; return its name.

        Raises:
            FormError: the schema cannot be honoured.
        """
        try:
            check_schema(schema)
            builder = SchemaRules(schema, self.rules, is_strict=is_strict, special=self.special)
            rule = builder.root(notation)
        except SchemaError as error:
            raise FormError(_located(path, error.place), str(error)) from None
        for place, why in builder.notices.items():
            self.notices[Notice(_located(path, place), why)] = None
        return rule

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


#: Calls whose numbers are counted, of all tools together; of the others each number is allowed.
_COUNTED_CALLS: Final = 64


class _Calls:
    """Adds the rules of calls of tools in the form that a declaration has."""

    def __init__(self, conversion: _Conversion, part: Format) -> None:
        self._to = conversion
        self._rules = conversion.rules
        self._form = form = msgspec.convert(part["form"], CallSyntax)
        self._tools = [msgspec.convert(tool, Tool) for tool in part["tools"]]
        self._only_one = part["only_one"] or form.only_one
        self._is_free, self._number = part["is_free"], part["number"]
        self._opening, call, self._closing = frame_of(form)
        self._segments = segments(call)
        self._is_counted = any(segment.field == "n" for segment in self._segments)
        #: The texts with which calls begin, and what follows: rules, and "" for the number.
        self._calls = [self._call(tool) for tool in self._tools]

    def made(self) -> _Made:
        """Add the rules of calls, or of any text in which calls follow their mark."""
        if self._is_free:
            return self._free()
        first = self._to.one_of([self._begun(each, 0) for each in self._calls])
        opening, closing = self._to.text(self._opening), self._to.text(self._closing)
        rule = self._rules.add(f"{opening.rule} {first.rule} {self._more(1)} {closing.rule}")
        return _Made(rule, opening.start.before(first.start))

    def _free(self) -> _Made:
        tags: dict[str, list[str]] = {}
        # A section is the end of the answer.
        more = self._more(1) if self._closing else '""'
        closing = self._to.text(self._closing).rule
        for begin, rest in self._calls:
            text = self._opening + begin
            trigger = self._trigger() or text
            begun = self._to.text(text[len(trigger) :]).rule
            rule = self._rules.add(f"{begun} {self._numbered(rest, 0)} {more} {closing}")
            tags.setdefault(self._to.special.written(trigger), []).append(rule)
        pairs = [(text, self._rules.add(" | ".join(rules))) for text, rules in tags.items()]
        loops = not (self._only_one or self._closing)
        return _Made(dispatch(self._rules, pairs, (), (), loops=loops), ANY_START)

    def _trigger(self) -> str:
        """Return the text at which a call is certain; "": the beginning of each call."""
        form = self._form
        first = self._segments[0]
        if form.is_bare:
            return "" if first.field == "name" else f'{self._opening}{{"{form.name_key}": "'
        mark = form.section[0] or first.literal
        # A word alone is one that texts have too.
        is_mark = any(letter in mark for letter in "<[|")
        return mark.splitlines()[0].rstrip() if is_mark else self._opening

    def _more(self, number: int) -> str:
        """Add the rule of further calls after so many; return its name."""
        if self._only_one:
            return self._rules.add('""')
        separator = self._to.text(self._form.separator).rule
        loop = self._rules.reserve()
        any_number = self._to.one_of([self._begun(each, None) for each in self._calls]).rule
        self._rules.define(loop, f'"" | {separator} {any_number} {loop}')
        if self._is_counted:
            for place in range(max(1, _COUNTED_CALLS // len(self._calls)), number - 1, -1):
                one = self._to.one_of([self._begun(each, place) for each in self._calls]).rule
                loop = self._rules.add(f'"" | {separator} {one} {loop}')
        return loop

    def _begun(self, call: tuple[str, Sequence[str]], place: int | None) -> _Made:
        begin = self._to.text(call[0])
        rule = self._rules.add(f"{begin.rule} {self._numbered(call[1], place)}")
        return _Made(rule, begin.start._replace(may_be_empty=False))

    def _numbered(self, rest: Sequence[str], place: int | None) -> str:
        """Return the rest of the call at some place among all; None is any."""
        if place is None:
            number = self._rules.add_expression(parse_regex("0|[1-9][0-9]{0,3}"))
        else:
            number = literal(str(self._number + place))
        return self._rules.add(" ".join(each or number for each in rest) or '""')

    def _call(self, tool: Tool) -> tuple[str, list[str]]:
        parts: list[str | None] = []  # texts, and None for rules in their order
        rules: list[str] = []

        def add(text: str) -> None:
            if parts and parts[-1] is not None:
                parts[-1] += text
            else:
                parts.append(text)

        for place, (field, text, _) in enumerate(self._segments):
            match field:
                case "":
                    add(text)
                case "name":
                    add(tool.name)
                case "object" | "keyed":
                    add(object_begin(self._form, field, tool.name))
                    rules.append(self._arguments("json", tool, ""))
                    parts.append(None)
                    add("}")
                case "n" | "id":
                    is_id = field == "id"
                    rules.append(self._rules.add_expression(_ID) if is_id else "")
                    parts.append(None)
                case _:
                    # Without a schema only the mark that follows ends these.
                    is_any = tool.schema is None and field in ("args", "tree")
                    after = self._segments[place + 1].literal if is_any else ""
                    rules.append(self._arguments(field, tool, after))
                    parts.append(None)
                    if is_any:
                        break
        begin = parts.pop(0) if parts[0] is not None else ""
        following = iter(rules)
        rest = [next(following) if each is None else self._to.text(each).rule for each in parts]
        return begin or "", rest

    def _arguments(self, field: str, tool: Tool, after: str) -> str:
        """Add the rule of the arguments of a tool; return its name."""
        notation = arguments_notation(self._form, field, self._to.special)
        if tool.text is not None:
            made = self._text_argument(tool.text, notation)
            if made is not None:
                return made
        if tool.schema is not None:
            return self._to.values(tool.schema, tool.path, tool.is_strict, notation)
        if not after:
            return self._to.values({"type": "object"}, tool.path, False, notation)
        # Any arguments: a text with all marks of the form, up to the one that follows.
        own = self._to.special.written("".join(marks(self._form)))
        end = self._to.special.written(after)
        return dispatch(self._rules, (), (end,), self._to.special.others(own), loops=True)

    def _text_argument(self, given: TextGrammar, notation: Notation) -> str | None:
        """Add the rule of the arguments whose one text follows a grammar; None: it cannot."""
        name, syntax, definition, path = given
        inner = notation.of_member(name).of(("string",))
        try:
            node = parse_lark(definition) if syntax == "lark" else parse_token(definition)
            automaton = smallest(make_automaton(node))
            if inner.stop:
                value = RawStrings(self._rules, inner, self._to.special).of_automaton(automaton)
            else:
                value = self._rules.add_string(automaton)
        except (UnsupportedGrammar, UnsupportedRegex, TooComplex) as error:
            self._to.notices[Notice(path, str(error))] = None
            return None
        except RecursionError:
            raise FormError(path, "it is nested too deeply") from None
        except (GrammarError, RegexError) as error:
            raise FormError(path, f"not a grammar ({syntax}): {error}") from None
        except NoTextError:
            raise FormError(path, "no text fits the grammar") from None
        return object_of(self._rules, name, value, notation)


def _located(path: str, place: str) -> str:
    place = path + place
    return place if len(place) <= _LONGEST_PATH else place[:_LONGEST_PATH] + "..."


_LEAVES: Final[dict[str, Callable[[_Conversion, dict[str, Any]], _Made]]] = {
    "calls": _Conversion.calls,
    "json_schema": _Conversion.schema,
    "regex": _Conversion.regex,
    "grammar": _Conversion.ebnf,
    "choice": _Conversion.choice,
}
