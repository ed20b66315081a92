"""Templates that would never end or fill the memory, each rendered under a memory limit.

``python -m`` this module prints one JSON line for each: its name, its outcome, the seconds of
processor time.
"""

from __future__ import annotations

import json
import resource
import sys
import time

from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError, RenderLimits

SECONDS = 0.5
ADDRESS_SPACE = 1 << 30
#: The longest text or list. Lists in themselves are gone through up to it, so theirs is less: sixty
#: doublings are as far beyond the one as beyond the other.
LENGTH = 4 << 20
LENGTH_OF_NESTED = 1 << 19

_GROW = "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = OP %}{% endfor %}"
_TREE = "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = OP %}{% endfor %}"
_PAIRS = _TREE.replace("OP", "[ns.x, ns.x]")
_TWO = _PAIRS.replace("ns", "a") + _PAIRS.replace("ns", "b")
_TUPLES = _TREE.replace("OP", "(ns.x, ns.x)").replace("[1]", "(1,)")
_BIG = "{% set big = 'a' * 4000000 %}"
_MANY = "{% for i in range(100000) %}"

HOSTILE = {
    "nested loops": _MANY * 3 + "{% endfor %}" * 3,
    "loops over macros": "{% macro m() %}" + _MANY + "{% endfor %}{% endmacro %}" + _MANY
    + "{{ m() }}{% endfor %}",
    "macro that calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "macro that calls itself twice": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}"
    "{% endif %}{% endmacro %}{{ m(100) }}",
    "recursive loop": "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "blocks within blocks": "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call m() %}" * 25 + "x" + "{% endcall %}" * 25,
    "power": "{{ 9 ** (9 ** 9) }}",
    "growing integer": _GROW.replace("'a'", "3").replace("OP", "ns.x * ns.x") + "{{ ns.x }}",
    "integer of hexadecimal digits": "{{ ('f' * 1000000) | int(base=16) // 3 }}",
    "rounding to a billion digits": "{{ 1 | round(-10 ** 9) }}",
    "long text": "{{ 'A' * 10 ** 9 }}",
    "long text, other way round": "{{ 10 ** 9 * 'A' }}",
    "long list": "{{ ([1] * 10 ** 9) | length }}",
    "doubling by +": _GROW.replace("OP", "ns.x + ns.x") + "{{ ns.x }}",
    "doubling by ~": _GROW.replace("OP", "ns.x ~ ns.x") + "{{ ns.x }}",
    "doubling by join": _GROW.replace("OP", "[ns.x, ns.x] | join") + "{{ ns.x }}",
    "doubling a list": _TREE.replace("OP", "ns.x + ns.x") + "{{ ns.x | length }}",
    "doubling by a block": _GROW.replace(
        "{% set ns.x = OP %}", "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"
    ) + "{{ ns.x }}",
    "printf width": "{{ '%0999999999d' | format(1) }}",
    "printf operator": "{{ '%0999999999d' % 1 }}",
    "printf precision": "{{ '%.999999999f' % 1.5 }}",
    "printf computed width": "{{ '%*d' % (999999999, 1) }}",
    "printf many fields": _BIG + "{{ ('%(a)s' * 1000) % {'a': big} }}",
    "format width": "{{ '{:>999999999}'.format(1) }}",
    "format computed width": "{{ '{:{}}'.format(1, 999999999) }}",
    "format_map width": "{{ '{x:999999999}'.format_map({'x': 1}) }}",
    "format many fields": _BIG + "{{ ('{0}' * 1000).format(big) }}",
    "center filter": "{{ 'a' | center(10 ** 9) }}",
    "center method": "{{ 'a'.center(10 ** 9) }}",
    "center by attr": "{{ ('a' | attr('center'))(10 ** 9) }}",
    "center by map": "{{ ['a'] | map('center', 10 ** 9) | list }}",
    "ljust": "{{ 'a'.ljust(10 ** 9) }}",
    "zfill": "{{ 'a'.zfill(10 ** 9) }}",
    "tabs": "{{ ('\t' * 1000000).expandtabs(100000) }}",
    "indent": "{{ ('\n' * 1000000) | indent(100000) }}",
    "indent with text": "{{ ('\n' * 1000000) | indent('x' * 100000) }}",
    "wordwrap": "{{ ('a b ' * 1000000) | wordwrap(1, true, 'x' * 100000) | length }}",
    "replace filter": "{{ ('a' * 1000000) | replace('a', 'b' * 1000000) }}",
    "replace method": "{{ ('a' * 1000000).replace('', 'b' * 1000000) }}",
    "translate": "{{ ('a' * 1000000).translate({97: 'b' * 1000000}) | length }}",
    "join filter": "{{ (['a'] * 200000) | join('b' * 1000000) }}",
    "join method": "{{ ('b' * 1000000).join(range(100000) | map('string')) }}",
    "batch": "{{ [1] | batch(10 ** 9, 'x') | list | length }}",
    "slice": "{{ [1] | slice(10 ** 9) | list | length }}",
    "bytes of an integer": "{{ (1).to_bytes(10 ** 9, 'big') | length }}",
    "quadratic codec": "{{ ('x' * 4000000).encode('punycode') | length }}",
    "range": "{{ range(10 ** 9) | list | length }}",
    "select in a list": "{{ range(100000) | select('in', range(100000) | list) | list | length }}",
    "sum of lists": "{{ ([[1] * 1000] * 100000) | sum(start=[]) | length }}",
    "sort of long texts": "{{ (['a' * 4000000] * 100000) | sort | length }}",
    "list in itself, printed": _PAIRS + "{{ ns.x }}",
    "list in itself, as JSON": _PAIRS + "{{ ns.x | tojson }}",
    "list in itself, as text": _PAIRS + "{{ ns.x | string | length }}",
    "list in itself, formatted": _PAIRS + "{{ '%s' % ns.x }}",
    "list in itself, appended": _PAIRS + "{{ 'a' ~ ns.x }}",
    "list in itself, sorted": _PAIRS + "{{ [ns.x, ns.x] | sort | length }}",
    "lists in themselves, equal": _TWO + "{{ a.x == b.x }}",
    "lists in themselves, not equal": _TWO + "{{ a.x != b.x }}",
    "lists in themselves, ordered": _TWO + "{{ a.x < b.x }}",
    "lists in themselves, in a chain": _TWO + "{{ 1 < 2 != a.x == b.x }}",
    "lists in themselves, found": _TWO + "{{ a.x in [b.x] }}",
    "lists in themselves, not found": _TWO + "{{ a.x not in (b.x,) }}",
    "lists in themselves, found in what comes one by one": _TWO
    + "{{ a.x in ([b.x] | map('default')) }}",
    "lists in themselves, tested": _TWO + "{{ a.x is eq b.x }}",
    "lists in themselves, tested to be in": _TWO + "{{ a.x is in [b.x] }}",
    "lists in themselves, selected": _TWO + "{{ [a.x] | select('==', b.x) | list | length }}",
    "lists in themselves, by attribute": _TWO
    + "{{ [{'k': a.x}] | selectattr('k', 'eq', b.x) | list | length }}",
    "lists in themselves, counted": _TWO + "{{ [a.x].count(b.x) }}",
    "lists in themselves, index": _TWO + "{{ (a.x,).index(b.x) }}",
    "lists in themselves, sorted one by one": _TWO
    + "{{ [a.x, b.x] | map('default') | sort | length }}",
    "lists in themselves, sorted by attribute": _TWO
    + "{{ [cycler(a.x), cycler(b.x)] | sort(attribute='items') | length }}",
    "lists in themselves, grouped": _TWO
    + "{{ [cycler(a.x), cycler(b.x)] | groupby('items') | length }}",
    "lists in themselves, greatest": _TWO + "{{ [a.x, b.x] | max }}",
    "lists in themselves, in dicts": _TWO + "{{ {'k': a.x} == {'k': b.x} }}",
    "lists in themselves, in a loop's condition": _TWO
    + "{% for i in [1] if a.x == b.x %}x{% endfor %}",
    "tuple in itself, a key": _TUPLES + "{{ {ns.x: 1} }}",
    "tuple in itself, looked up": _TUPLES + "{{ {}[ns.x] }}",
    "tuple in itself, got": _TUPLES + "{{ {}.get(ns.x) }}",
    "tuple in itself, in a dict": _TUPLES + "{{ ns.x in {} }}",
    "tuple in itself, in keys": _TUPLES + "{{ ns.x in {}.keys() }}",
    "tuple in itself, taken from keys": _TUPLES + "{{ {'a': 1}.keys() - [ns.x] }}",
    "tuple in itself, keys that have nothing of it": _TUPLES
    + "{{ {'a': 1}.keys().isdisjoint([ns.x]) }}",
    "tuple in itself, a dict of it": _TUPLES + "{{ dict([(ns.x, 1)]) }}",
    "tuple in itself, unique": _TUPLES + "{{ [ns.x, ns.x] | map('default') | unique | list }}",
    "tuple in itself, name of a filter": _TUPLES + "{{ ns.x is filter }}",
    "list in itself, lower": _PAIRS + "{{ ns.x is lower }}",
    "list in itself, no such element": _PAIRS + "{{ {}[ns.x].y }}",
    "list in itself, raised": _PAIRS + "{{ raise_exception(ns.x) }}",
    "list in itself, as an argument": _PAIRS + "{{ 'a'.center(1, ns.x) }}",
    "long texts compared in a condition": "{% set a = 'a' * 4000000 %}{% set b = 'a' * 4000000 %}"
    "{% for i in range(100000) if a != b %}{% endfor %}x" + _MANY * 2 + "{% endfor %}" * 2,
    "long text looked for in many": "{% set a = 'a' * 4000000 %}{% set b = 'a' * 4000000 %}"
    "{{ a in [b] * 200000 }}",
    "searches in a condition": _BIG + "{% for i in range(100000) if 'b' in big %}{% endfor %}x"
    + _MANY * 2 + "{% endfor %}" * 2,
    "conditions that never hold": "{% for i in range(100000) if [1] == [2] %}{% endfor %}" * 40,
    "tags stripped": "{{ ('<!-- -->' * 400000) | striptags }}",
    "a module, formatted": "{% import 'x' as m %}{{ ('%s' * 1000) % ((m,) * 1000) }}",
    "namespace, printed": _PAIRS + "{{ ns }}",
    "values, printed": _PAIRS + "{{ {'a': ns.x}.values() }}",
    "indented JSON": "{{ [[[[1]]]] | tojson(indent=10 ** 9) }}",
    "deep JSON": "{{ ('[' * 100000) | from_json }}",
    "long output": _BIG + _MANY + "{{ big }}{% endfor %}",
    "long block": _BIG + "{% set x %}" + _MANY + "{{ big }}{% endfor %}{% endset %}",
    "literal text in a block": "{% set x %}" + _MANY + "x" * 1000 + "{% endfor %}{% endset %}",
    "many slices kept": "{% set ns = namespace(l=[]) %}" + _BIG + _MANY
    + "{% set ns.l = ns.l + [big[1:]] %}{% endfor %}",
    "many results kept": "{% set ns = namespace(l=[]) %}" + _BIG + _MANY
    + "{% set ns.l = ns.l + [big.upper()] %}{% endfor %}",
    "many lists kept": "{% set ns = namespace(l=[]) %}" + _MANY
    + "{% set ns.l = ns.l + [range(100000) | list] %}{% endfor %}",
    "split": "{{ ('a ' * 2000000).split() | length }}",
    "time format": "{{ strftime_now('%c' * 1000000) }}",
}  # fmt: skip


def main() -> None:
    """Render all templates."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    for name, source in HOSTILE.items():
        is_nested = source.startswith((_PAIRS, _TWO, _TUPLES))
        # Each has a quarter of the memory that the real limits would allow.
        limits = RenderLimits(
            seconds=SECONDS,
            output_characters=LENGTH_OF_NESTED if is_nested else LENGTH,
            loop_ticks=300_000,
        )
        start = time.process_time()
        try:
            prompt = ChatTemplate.of_source(source, limits=limits).render([{"content": "x"}])
            outcome = f"a prompt of {len(prompt)} characters"
        except ChatTemplateError as error:
            outcome = f"ChatTemplateError: {error}"
        line = {"name": name, "outcome": outcome, "seconds": time.process_time() - start}
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
