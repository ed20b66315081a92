"""`GuardedCodeGenerator`: templates compiled so that each loop and macro asks the budget."""

from __future__ import annotations

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, MacroRef

#: The attribute of the environment whose mention in a template's code is a call of it.
TICK = "tick"


class GuardedCodeGenerator(CodeGenerator):
    """Jinja's own, with a tick in each loop body and macro, and ears on ``~`` and slices."""

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802
        node.body.insert(0, _tick(node.lineno))
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
        # Slices copy, and do not pass through the environment.
        if isinstance(node.arg, nodes.Slice):
            self.write("environment.made(")
            super().visit_Getitem(node, frame)
            self.write(")")
        else:
            super().visit_Getitem(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        self.write("environment.joined((")
        for operand in node.nodes:
            self.visit(operand, frame)
            self.write(", ")
        self.write("))")


def _tick(lineno: int) -> nodes.ExprStmt:
    return nodes.ExprStmt(nodes.EnvironmentAttribute(TICK, lineno=lineno), lineno=lineno)
