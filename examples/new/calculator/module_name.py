from dataclasses import dataclass

from graphrt import Calculator, CalculatorContext, In, Options, Out, calculator, options


@options("registered_nameOptions")
@dataclass(frozen=True)
class ClassNameOptions:
    """The options that a graph sets.

    Attributes:
        factor: the number by which values are multiplied.
    """

    factor: float = 2.0


@calculator("registered_name")
class ClassName(Calculator):
    """Multiplies each value by a factor.

    Inputs: a number.
    Outputs: the product, at the same timestamp.
    """

    value = In[float]("VALUE")
    product = Out[float]("VALUE")
    options = Options(ClassNameOptions)

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.product, cc.get(self.value) * self.options.factor)
