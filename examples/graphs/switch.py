"""The calculators of switch.pbtxt: all nodes of a switch have the same ports."""

from graphrt import Calculator, CalculatorContext, In, Out, calculator


class Speaker(Calculator):
    """A text in, a text out."""

    text = In[str]("TEXT")
    spoken = Out[str]("SPOKEN")


@calculator
class Whisper(Speaker):
    """Speaks softly."""

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.spoken, f"({cc.get(self.text).lower()})")


@calculator
class Shout(Speaker):
    """Speaks up."""

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.spoken, f"{cc.get(self.text).upper()}!")
