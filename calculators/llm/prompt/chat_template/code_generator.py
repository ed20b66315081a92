"""`GuardedCodeGenerator`: compiles templates so that each loop and macro checks the budget."""

from __future__ import annotations

from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, MacroRef, optimizeconst

from calculators.llm.prompt.chat_template.budgeted_environment import BudgetedEnvironment

#: The attribute of the environment that generated code calls instead of reading.
TICK = "tick"


class GuardedCodeGenerator(CodeGenerator):
    """Jinja's code generator with a tick in each loop and macro.

    ``~``, slices, comparisons and keys of dictionaries become calls of the environment. Compiling
    raises `ChatTemplateError` when its budget is used up.
    """

    environment: BudgetedEnvironment

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        self.environment.check_time()
        return super().visit(node, *args, **kwargs)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802
        node.body.insert(0, _tick(node.lineno))
        if node.test is not None:
            # `tick` returns None, so `or` leaves the decision to the test.
            tick = nodes.EnvironmentAttribute(TICK, lineno=node.lineno)
            node.test = nodes.Or(tick, node.test, lineno=node.lineno)
        super().visit_For(node, frame)

    def macro_body(
        self, node: nodes.Macro | nodes.CallBlock, frame: Frame
    ) -> tuple[Frame, MacroRef]:
        node.body.insert(0, _tick(node.lineno))
        return super().macro_body(node, frame)

    def visit_EnvironmentAttribute(  # noqa: N802
        self, node: nodes.EnvironmentAttribute, frame: Frame
    ) -> None:
        super().visit_EnvironmentAttribute(node, frame)
        if node.name == TICK:
            self.write("()")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        # Jinja compiles slices to Python's own, which copy unseen.
        if isinstance(node.arg, nodes.Slice):
            self.write("environment.made(")
            super().visit_Getitem(node, frame)
            self.write(")")
        else:
            super().visit_Getitem(node, frame)

    @optimizeconst
    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:  # noqa: N802
        if _is_quick(node):
            super().visit_Compare(node, frame)
            return
        self.write("environment.compared(")
        self.visit(node.expr, frame)
        for operand in node.ops:
            self.write(f", ({operand.op!r}, ")
            self.visit(operand.expr, frame)
            self.write(")")
        self.write(")")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        self.write("{")
        for pair in node.items:
            if isinstance(pair.key, nodes.Const):
                self.visit(pair.key, frame)
            else:
                self.write("environment.key(")
                self.visit(pair.key, frame)
                self.write(")")
            self.write(": ")
            self.visit(pair.value, frame)
            self.write(", ")
        self.write("}")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        self.write("environment.joined((")
        for operand in node.nodes:
            self.visit(operand, frame)
            self.write(", ")
        self.write("))")


def _is_quick(node: nodes.Compare) -> bool:
    """True for one comparison with a constant that is no list, such as ``role == 'user'``."""
    if len(node.ops) != 1 or node.ops[0].op in ("in", "notin"):
        return False
    return isinstance(node.expr, nodes.Const) or isinstance(node.ops[0].expr, nodes.Const)


def _tick(lineno: int) -> nodes.ExprStmt:
    return nodes.ExprStmt(nodes.EnvironmentAttribute(TICK, lineno=lineno), lineno=lineno)
