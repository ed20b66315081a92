"""The calculator of join.pbtxt, as a class with typed ports."""

from graphrt import Calculator, CalculatorContext, In, Out, calculator


@calculator
class AddNumbers(Calculator):
    """Adds two numbers of the same timestamp; a missing one counts as 0."""

    left = In[int]("LEFT")
    right = In[int]("RIGHT")
    total = Out[int]()

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.total, cc.get(self.left, 0) + cc.get(self.right, 0))
