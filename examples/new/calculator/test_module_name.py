from graph_runtime.testing import CalculatorRunner

from module_name import ClassName, ClassNameOptions


def test_values_are_multiplied() -> None:
    runner = CalculatorRunner(ClassName, options=ClassNameOptions(factor=3.0))
    runner.push("VALUE", 1.5, at=0)
    runner.push("VALUE", 2, at=1)
    runner.run()
    assert runner.outputs["VALUE"].values == [4.5, 6.0]
