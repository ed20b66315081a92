"""Limits of a rendering (`RenderLimits`), and the rest of them while it runs (`Budget`)."""

from __future__ import annotations

from collections.abc import ItemsView, KeysView, ValuesView
from dataclasses import dataclass
from time import monotonic, thread_time
from typing import Any, TypeVar

from jinja2.environment import TemplateModule
from jinja2.utils import Namespace

from calculators.llm.prompt.chat_template.errors import ChatTemplateError

T = TypeVar("T")

#: The cost of one element of a list, in characters.
ELEMENT = 16
#: The size of all values made in one rendering, as a multiple of the longest prompt. Most are
#: garbage soon; a template that keeps them all holds this much.
TURNOVER = 64
#: The longest integer in bits. Arithmetic on longer ones takes time that grows with the square.
MAX_BITS = 65_536
#: Characters of a template: compiling so many takes up to two seconds.
LONGEST_TEMPLATE = 256 * 1024
#: The largest count that a filter may be asked for.
MAX_COUNT = 100_000


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """The limits of one rendering.

    Attributes:
        seconds: processor time, checked between the steps of the template.
        output_characters: the longest prompt, and the longest string or list on the way to it.
        loop_ticks: turns of loops, calls of macros and includes, all together.
        compile_seconds: processor time for compiling a template.
    """

    seconds: float = 2.0
    output_characters: int = 4 * 1024 * 1024
    loop_ticks: int = 1_000_000
    compile_seconds: float = 10.0


class Budget:
    """The rest of one rendering's limits; methods raise `ChatTemplateError` when it is used up."""

    __slots__ = (
        "_characters",
        "_deadline",
        "_limits",
        "_processor_deadline",
        "_seconds",
        "_ticks",
        "_work",
    )

    def __init__(self, limits: RenderLimits, *, compiles: bool = False) -> None:
        self._limits = limits
        self._work = "compiling" if compiles else "rendering"
        self._seconds = limits.compile_seconds if compiles else limits.seconds
        self._deadline = monotonic() + self._seconds
        self._processor_deadline = thread_time() + self._seconds
        self._ticks = limits.loop_ticks
        self._characters = TURNOVER * limits.output_characters

    @property
    def longest(self) -> int:
        """The longest text or list, in characters."""
        return self._limits.output_characters

    def check_time(self) -> None:
        # Time spent waiting for a processor does not count. The first clock is the cheaper one.
        if monotonic() > self._deadline and thread_time() > self._processor_deadline:
            raise ChatTemplateError(
                f"{self._work} the chat template took longer than {self._seconds:g} seconds"
            )

    def tick(self) -> None:
        """Count one turn of a loop, or one call of a macro."""
        self._ticks -= 1
        if self._ticks < 0:
            raise ChatTemplateError(
                f"the chat template takes more than {self._limits.loop_ticks} turns of its loops"
            )
        self.check_time()

    def allow(self, characters: int) -> None:
        """Check that a value of this length may be made."""
        if characters > self._limits.output_characters:
            raise ChatTemplateError(
                "the chat template makes a text or list longer than"
                f" {self._limits.output_characters} characters"
            )

    def create(self, characters: int) -> None:
        """Charge for a value of this length that is about to be made, or has been."""
        self.allow(characters)
        self._characters -= characters
        if self._characters < 0:
            raise ChatTemplateError(
                "the chat template makes more than"
                f" {TURNOVER * self._limits.output_characters} characters of intermediate values"
            )

    def made(self, value: T) -> T:
        """Charge for a value that an operation has made, and return it."""
        if isinstance(value, (str, bytes)):
            self.create(len(value))
        elif isinstance(value, (list, tuple, dict)):
            self.create(ELEMENT * len(value))
        elif isinstance(value, int):
            self.allow_bits(value.bit_length())
        return value

    def allow_bits(self, bits: int) -> None:
        if bits > MAX_BITS:
            raise ChatTemplateError(f"the chat template makes an integer of over {MAX_BITS} bits")

    def allow_count(self, count: object) -> None:
        if isinstance(count, int) and abs(count) > MAX_COUNT:
            raise ChatTemplateError(
                f"the chat template passes {count} to a filter that takes up to {MAX_COUNT}"
            )

    def weigh(self, value: Any) -> int:
        """Return about how many characters ``value`` has as text; raise if that is too long.

        A list that contains itself many times over is small until it is printed.
        """
        most = self._limits.output_characters
        weight = _weight(value, most)
        if weight > most:
            self.allow(weight)
        return weight

    def is_within(self, value: Any, most: int) -> bool:
        """Return True if ``value``, as text, has about ``most`` characters or fewer."""
        return _weight(value, most) <= most


def _weight(value: Any, most: int) -> int:
    """Return about how many characters ``value`` has as text, or any number above ``most``."""
    if type(value) is str:
        return len(value)
    total = 0
    waiting = [value]
    while waiting and total <= most:
        item = waiting.pop()
        if isinstance(item, str):
            total += len(item) + 2
        elif isinstance(item, dict):
            total += 4 * len(item)
            waiting += item
            waiting += item.values()
        elif isinstance(item, (list, tuple, KeysView, ValuesView, ItemsView)):
            total += 2 * len(item)
            waiting += item
        elif isinstance(item, Namespace):
            total += 2
            waiting.append(item._Namespace__attrs)
        elif isinstance(item, TemplateModule):
            total += sum(map(len, item._body_stream))
        else:
            total += 8
    return total
