"""Uses that type checkers must refuse: each comment is an error if there is nothing to ignore.

Checked, never run. mypy reports unused ignores in strict mode; ``pyrightconfig.json`` makes
pyright do so, and skip those for mypy.
"""

from __future__ import annotations

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    GraphService,
    In,
    Options,
    Out,
    SideIn,
    SideOut,
    Timestamp,
    options,
)
from protos import messages


@options("typingtest.WrongOptions")
class RedactOptions:
    words: tuple[str, ...] = ()
    mask: str = "*"


CLOCK: GraphService[list[int]] = GraphService("typingtest.WrongClock")


class Redact(Calculator):
    """Every port used wrongly."""

    text = In[str]("TEXT")
    numbers = In[int]("NUMBER", multiple=True)
    clean = Out[str]("TEXT")
    hits = Out[int]("HITS", optional=True)
    model = SideIn[list[str]]("MODEL")
    made = SideOut[float]("MADE")
    redact = Options(RedactOptions)

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.use_service("clock")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    def open(self, cc: CalculatorContext) -> None:
        model: str = cc.side(self.model)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
        cc.set_side(self.made, "one")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
        cc.service(CLOCK).pop()  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
        print(model)

    def process(self, cc: CalculatorContext) -> None:
        number: int = cc.get(self.text)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
        text: str = cc.get(self.text, None)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
        numbers: list[int] = cc.get_all(self.numbers)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
        cc.emit(self.hits, "three")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
        cc.emit(self.text, "an input")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        cc.get(self.clean)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
        cc.side(self.text)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
        mask: int = self.redact.mask  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
        print(self.redact.speed)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        print(number, text, numbers, mask)


class Returns(Calculator):
    """A method that returns a value, and one that forgets its context."""

    def process(self, cc: CalculatorContext) -> int:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return 5

    def close(self) -> None:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return None


def uses() -> None:
    RedactOptions(words="secret")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    RedactOptions(wrods=())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    RedactOptions().mask = "#"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    Timestamp("5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def messages_of_options(cc: CalculatorContext) -> None:
    """Misspelt members of protobuf messages, and values of other types."""
    options = cc.options(messages.LLMCalculatorOptions)
    print(options.max_num_sequences)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    options.max_num_seqs = "5"  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    options.HasField("max_num_sequences")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    messages.LLMCalculatorOptions(max_num_sequences=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    messages.LLMCalculatorOption()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
