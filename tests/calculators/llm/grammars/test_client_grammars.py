"""Grammars that clients write (EBNF)."""

from __future__ import annotations

import re

import pytest

from calculators.llm.grammars.automaton import make_automaton
from calculators.llm.grammars.ebnf import GrammarError, parse_ebnf

SQL = """
# as vLLM's documentation has it
root ::= select_statement
select_statement ::= "SELECT " column " from " table " where " condition
column ::= "col_1 " | "col_2 "
table ::= "table_1 " | "table_2 "
condition ::= column "= " number
number ::= "1 " | "2 " [0-9]{2,3} ("x" | 'y')*
"""


def test_a_grammar_may_have_several_rules() -> None:
    automaton = make_automaton(parse_ebnf(SQL))
    assert automaton.accepts("SELECT col_1  from table_2  where col_2 = 1 ")
    assert automaton.accepts("SELECT col_1  from table_2  where col_2 = 2 123xyx")
    assert not automaton.accepts("SELECT col_3  from table_2  where col_2 = 1 ")
    assert not automaton.accepts("SELECT col_1 ")


def test_escapes_in_literals_and_classes_are_read() -> None:
    automaton = make_automaton(parse_ebnf(r'root ::= "a\n\"\x41\u00e9\\" [\]\-]? ' + "'\"'"))
    assert automaton.accepts('a\n"Aé\\]"')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('::= "a"', "::= without the name of a rule"),
        ("::= {{{", "line 1: '{{{' cannot be read"),
        ("root ::= {{{", "line 1: '{{{' cannot be read"),
        ("root ::= root", "refers to itself"),
        ("root ::= a\na ::= b\nb ::= a", "refers to itself"),
        ("root ::= foo", 'there is no rule "foo"'),
        ('a ::= "b"', 'there is no rule "root"'),
        ('root ::= ("a"', "a parenthesis that is not closed"),
        ('root ::= "a")', "an unopened parenthesis"),
        ('root ::= *"a"', "* repeats nothing"),
        ('root ::= "a"\nroot ::= "b"', "is there twice"),
        ('root ::= TagDispatch(("a", b))', "cannot be read"),
        ('root ::= "a"{3,99999999}', "a count above 1000000"),
        ('root ::= "\\U00100000"', "a letter that no answer has"),
        ("root ::= [z-a]", "backwards"),
        ('"a"', "expected the name of a rule"),
        ('?start: "a"', "cannot be read"),
    ],
)
def test_invalid_grammars_are_refused(text: str, why: str) -> None:
    with pytest.raises(GrammarError, match=re.escape(why)):
        make_automaton(parse_ebnf(text))
