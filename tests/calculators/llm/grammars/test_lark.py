"""Grammars in Lark's notation, and tools whose one text follows a grammar."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.language.events import Arguments, Content, OutputEvent, ToolCall
from calculators.language.generation_request import TextGrammar, Tools
from calculators.llm.grammars.automaton import Automaton, make_automaton
from calculators.llm.grammars.ebnf import GrammarError
from calculators.llm.grammars.form_grammar import FormError, FormGrammar, form_grammar
from calculators.llm.grammars.lark import parse_lark
from calculators.llm.grammars.lark_reader import UnsupportedGrammar
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.registry import tool_parser
from calculators.llm.requests.client_tools import read_client_tools
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.structured_output import request_grammar
from tests.calculators.llm.grammars.derivations import Derivations
from tests.calculators.llm.grammars.test_request_grammar import PARSERS

#: The form of a patch as coding agents ask for it.
PATCH = r"""
start: first part+ last
first: "*** Begin Patch" LF
last: "*** End Patch" LF?

part: added | deleted | updated
added: "*** Add File: " path LF new_line+
deleted: "*** Delete File: " path LF
updated: "*** Update File: " path LF moved? changes?

path: /(.+)/
new_line: "+" /(.*)/ LF -> line
moved: "*** Move to: " path LF
changes: (place | line)+ end_of_file?
place: ("@@" | "@@ " /(.+)/) LF
line: ("+" | "-" | " ") /(.*)/ LF
end_of_file: "*** End of File" LF

%import common.LF
"""
GOOD_PATCH = """*** Begin Patch
*** Add File: hello.txt
+Hello "world" \\ </parameter>
+
*** Update File: src/app.py
*** Move to: src/main.py
@@ def greet():
-print("Hi")
+print("Hello, world!")
*** Delete File: obsolete.txt
*** End Patch
"""


def accepts(grammar: str, text: str) -> bool:
    return language(grammar).accepts(text)


def language(grammar: str) -> Automaton:
    return make_automaton(parse_lark(grammar))


# The notation -------------------------------------------------------------------------------------


def test_a_patch_is_valid_or_not() -> None:
    automaton = language(PATCH)
    assert automaton.accepts(GOOD_PATCH)
    assert automaton.accepts(GOOD_PATCH.rstrip("\n"))
    for wrong in (
        GOOD_PATCH.replace("*** Begin Patch\n", ""),
        GOOD_PATCH.replace("+Hello", "Hello"),
        GOOD_PATCH.replace("*** Delete File: obsolete.txt", "*** Delete File: "),
        "*** Begin Patch\n*** End Patch\n",
        GOOD_PATCH + "done",
    ):
        assert not automaton.accepts(wrong), wrong


CASES: list[tuple[str, list[str], list[str]]] = [
    # Precedence, aliases, alternatives on later lines.
    (
        """
        start: expr
        expr: term (SP ADD SP term)* -> add
            | term
        term: factor (SP MUL SP factor)* -> mul
            | factor
        factor: INT
        SP: " "
        ADD: "+"
        MUL: "*"
        %import common.INT
        """,
        ["1 + 2 * 33", "4"],
        ["1+2", "1 + ", ""],
    ),
    ('start: "a"~2 "b"~1..3', ["aab", "aabbb"], ["ab", "aabbbb", "aa"]),
    ('start: ["a"] "b"? "c"* "d"+', ["d", "abccdd"], ["abc", "aad"]),
    ('start: "select"i /[a-c]+/i', ["SELECT abc".replace(" ", ""), "sElEcTABC"], ["selec", "x"]),
    ('start: "straße"i', ["STRAßE", "straße"], ["strasse"]),
    ('start: /a.b/s /c.d/', ["a\nbcxd"], ["a\nbc\nd"]),
    ('start: "x".."z" /[^\\/]\\//', ["ya/", "zb/"], ["wa/", "y//"]),
    (r'start: "\n\t\"\\\x41\u00e9\d"', ['\n\t"\\Aé\\d'], ["d"]),
    ("?start: _inner\n!_inner: A | B\nA.2: \"a\"\nB.-1: \"b\" // one\n# two", ["a", "b"], ["ab"]),
    ('start: | "a"', ["", "a"], ["aa"]),
    ('start: (\n"a"\n| "b"\n)+\n\n  | "c"', ["abba", "c"], ["", "ac"]),
    ('start: _separated{word, ","}\n_separated{x, sep}: x (sep x)*\nword: /[a-z]+/',
     ["a,bc,d"], ["a,", ""]),
    ('start: _twice{_twice{"a"}}\n_twice{x}: x x', ["aaaa"], ["aa"]),
    ('start: "{" (pair ("," pair)*)? "}"\npair: CNAME ":" (SIGNED_NUMBER | ESCAPED_STRING)\n'
     "%import common (CNAME, SIGNED_NUMBER, ESCAPED_STRING, WS)\n%ignore WS",
     ['{}', ' { a_1 : -1.5e3 ,\n b: "x\\"y" }  '], ['{a:b}', '{a 1}', '{a:"x"y"}']),
    ("start: NAME NUMBER\n%import common.WORD -> NAME\n%import common.NUMBER",
     ["ab1.5"], ["1"]),
    ('start: A\nA: "a"\n%override A: "b"\n%extend A: "c"', ["b", "c"], ["a"]),
    ("start: C_COMMENT\n%import common.C_COMMENT", ["/* a ** / */", "/***/"], ["/* */ */", "/*/"]),
    # Recursion at one end.
    ('start: list\nlist: item | list "," item\nitem: "a"', ["a", "a,a,a"], ["a,", "", ",a"]),
    ('start: item rest\nrest: "," item rest |\nitem: "a"', ["a", "a,a,a"], ["a,", ""]),
    ('start: "x" even | "y"\neven: "z" odd | \nodd: start', ["y", "x", "xzy", "xzxzy"], ["z"]),
    ('start: start "b" | start "c" | "a"', ["a", "abcb"], ["b"]),
    ('start: "a" start?', ["a", "aaa"], [""]),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "valid", "invalid"), CASES)
def test_texts_of_a_grammar(grammar: str, valid: list[str], invalid: list[str]) -> None:
    automaton = language(grammar)
    assert [text for text in valid if not automaton.accepts(text)] == []
    assert [text for text in invalid if automaton.accepts(text)] == []


@pytest.mark.parametrize(
    ("grammar", "why"),
    [
        ("", 'there is no rule "start"'),
        ('begin: "a"', 'there is no rule "start"'),
        ("start: a", 'line 1: "a" is not defined'),
        ('start: "a"\nstart: "b"', 'line 2: "start" is defined twice'),
        ('start: ("a"', 'line 1: expected ")", got the end'),
        ('start: "a")', "line 1: expected the end of the line, got ')'"),
        ('start "a"', 'line 1: expected ":", got \'"a"\''),
        ('start: "a" -> \n', "line 1: expected a name, got the end of the line"),
        ('start: "a"~x', "line 1: expected a number, got 'x'"),
        ('start: "a"~3..2', "line 1: a range of counts that is backwards"),
        ('start: "a"~9999999', "line 1: a count that is not between 0 and 1000000"),
        ('start: "ab".."c"', "line 1: a range needs two letters in their order"),
        ("start: /[a/", "line 1: not a regular expression: a class that is not closed"),
        ("start: A\nA: b\nb: /c/", 'line 2: a terminal cannot refer to the rule "b"'),
        ("start: A\nA: A", 'the terminal "A" refers to itself'),
        ("%import common.NOTHING", 'line 1: the module "common" has no terminal "NOTHING"'),
        ("%import common", 'line 1: expected "." and the name of a terminal'),
        ("%ignroe WS", "line 1: there is no directive %ignroe"),
        ('%extend a: "b"', '"a" is not defined, and cannot be extended'),
        ('start: _t{"a"}\n_t{x, y}: x', 'line 1: "_t" takes 2 arguments, got 1'),
        ("start: @", "line 1: '@' cannot be read"),
        ("start: " + "(" * 200 + '"a"' + ")" * 200, "groups nested deeper than 60"),
    ],
)
def test_invalid_grammars_are_refused(grammar: str, why: str) -> None:
    with pytest.raises(GrammarError, match=re.escape(why)) as raised:
        language(grammar)
    assert not isinstance(raised.value, UnsupportedGrammar)


@pytest.mark.parametrize(
    "grammar",
    [
        'start: "(" start ")" | "a"',
        "start: a\na: b a c | b\nb: /b/\nc: /c/",
        "%declare INDENT\nstart: INDENT",
        "%import python.NAME\nstart: NAME",
        "%import .other.NAME\nstart: NAME",
        "start: /a(?=b)/",
        "start: /a b/x",
        'start: %json {"type": "object"}',
        "start: <|special|>",
        'start[capture]: "a"',
        "start: _t{/a/}\n_t{x}: x _t{x} |",
    ],
)
def test_other_grammars_are_not_followed(grammar: str) -> None:
    with pytest.raises(UnsupportedGrammar):
        language(grammar)


# Tools --------------------------------------------------------------------------------------------


def custom(definition: str, syntax: str = "lark", **members: Any) -> dict[str, Any]:
    form = {"type": "grammar", "syntax": syntax, "definition": definition}
    return {"type": "custom", "name": "apply", "format": form, **members}


def made(
    *given: dict[str, Any], parser: str = "hermes3", choice: str = "required", guides: bool = False
) -> FormGrammar:
    tools = read_client_tools({"tools": list(given), "tool_choice": choice}, RequestLimits())
    form = request_grammar(
        None, tools, tool_parser=tool_parser(parser), reasoning_parser=None,
        guides_tools=guides, parallel=False,
    )  # fmt: skip
    assert form is not None
    return form_grammar(form)


def texts(answer: str, parser: str, tools: Tools) -> list[str]:
    """Return the texts with which an answer calls the tool."""
    stream = OutputParsers(tool_parser(parser), None).start(tools=tools.schemas, prompt="")
    events: list[OutputEvent] = [*stream.feed(answer), *stream.finish()]
    assert sum(isinstance(event, ToolCall) for event in events) == 1
    assert not "".join(event.text for event in events if isinstance(event, Content)).strip()
    arguments = "".join(event.text for event in events if isinstance(event, Arguments))
    return [json.loads(arguments)["input"]]


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize(
    ("definition", "syntax"), [(PATCH, "lark"), ("^(?:rm|cp) -[a-z]{1,3}\\n?</?\\w+>$", "regex")]
)
def test_a_forced_call_has_a_text_of_the_grammar(parser: str, definition: str, syntax: str) -> None:
    tool = custom(definition, syntax)
    grammar = made(tool, parser=parser)
    assert grammar.notices == ()
    valid = language(PATCH).accepts if syntax == "lark" else re.compile(definition).fullmatch
    tools = read_client_tools({"tools": [tool]}, RequestLimits())
    derivations = Derivations(grammar.grammar.text)
    for seed in range(40):
        answer = derivations.random_text(random.Random(seed))
        [text] = texts(answer, parser, tools)
        assert valid(text), (seed, answer)


def test_a_call_of_a_free_model_has_a_text_of_the_grammar() -> None:
    plain = {"type": "function", "name": "other", "parameters": {"type": "object"}}
    grammar = made(custom(PATCH), plain, choice="auto").grammar.text
    dispatch = re.search(r"(r\d+ ::= )TagDispatch\(.*", grammar)
    assert dispatch is not None
    [(_, tag)] = re.findall(r'\("([^"]*)", (r\d+)\)', dispatch[0])
    calls = Derivations(
        re.sub("^root ::=.*", f"root ::= {tag}", grammar.replace(dispatch[0], f'{dispatch[1]}""'))
    )
    answers = [calls.random_text(random.Random(seed)) for seed in range(50)]
    patches = [text for text in answers if '"apply"' in text]
    assert patches
    assert len(patches) < len(answers)
    for text in patches:
        call = json.loads(text.removesuffix("</tool_call>"))
        assert language(PATCH).accepts(call["arguments"]["input"])
        assert not calls.matches(text.replace("*** Begin", "*** Start"))


def test_a_free_model_without_such_tools_is_not_guided() -> None:
    tools = read_client_tools({"tools": [{"type": "custom", "name": "any"}]}, RequestLimits())
    assert request_grammar(
        None, tools, tool_parser=tool_parser("hermes3"), reasoning_parser=None,
        guides_tools=False, parallel=True,
    ) is None  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "path", "why"),
    [
        (custom("start: a"), "tools[0].format.definition", '"a" is not defined'),
        (custom("a(", "regex"), "tools[0].format.definition", "not closed"),
        (custom('start: "a" nothing\nnothing: "b" nothing'), "tools[0].format.definition",
         "no text fits"),
        ({"type": "custom", "custom": {"name": "n", "format": {"type": "grammar", "grammar":
          {"syntax": "lark", "definition": "x"}}}}, "tools[0].custom.format.grammar.definition",
         "expected"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_an_invalid_grammar_is_refused_with_its_place(
    tool: dict[str, Any], path: str, why: str, choice: str
) -> None:
    with pytest.raises(FormError, match=re.escape(why)) as raised:
        made(tool, choice=choice)
    assert raised.value.path == path


@pytest.mark.parametrize("parser", ["hermes3", "qwen3coder"])
@pytest.mark.parametrize(
    ("definition", "syntax"),
    [
        ('start: "(" start ")" | "a"', "lark"),
        ("start: /(a|b)*a(a|b){30}/", "lark"),
        ("(a)\\1", "regex"),
    ],
)
def test_a_grammar_that_cannot_be_followed_is_left_out_with_a_notice(
    parser: str, definition: str, syntax: str
) -> None:
    grammar = made(custom(definition, syntax), parser=parser)
    [notice] = grammar.notices
    assert notice.path == "tools[0].format.definition"
    assert notice.why


@pytest.mark.parametrize(
    ("form", "path"),
    [
        ({"type": "grammar", "syntax": "ebnf", "definition": "x"}, "tools[0].format.syntax"),
        ({"type": "grammar", "definition": "x"}, "tools[0].format.syntax"),
        ({"type": "grammar", "syntax": "lark"}, "tools[0].format.definition"),
        ({"type": "gramar", "syntax": "lark"}, "tools[0].format.type"),
    ],
)
def test_a_format_that_is_none_is_refused(form: dict[str, Any], path: str) -> None:
    with pytest.raises(RequestError) as raised:
        made({"type": "custom", "name": "a", "format": form})
    assert raised.value.param == path


def test_tools_of_a_namespace_and_allowed_ones_keep_their_grammars() -> None:
    space = {"type": "namespace", "name": "files", "tools": [custom(PATCH)]}
    allowed = {"type": "allowed_tools", "mode": "required",
               "tools": [{"type": "namespace", "name": "files"}]}  # fmt: skip
    for choice in ("auto", allowed):
        tools = read_client_tools({"tools": [space], "tool_choice": choice}, RequestLimits())
        assert tools.grammars == {
            "files__apply": TextGrammar(
                "input", "lark", PATCH, "tools[0].tools[0].format.definition"
            )
        }
