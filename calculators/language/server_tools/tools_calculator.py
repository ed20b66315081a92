"""`ToolsCalculator` and `OfferToolsCalculator`: tools that a model calls and this server runs."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from typing import Any

from calculators.language import Delta, Deltas, GenerationRequest
from calculators.language.server_tools.tool_loop import ToolLoop
from calculators.language.server_tools.toolbox import Toolbox, offer_tools
from calculators.language.server_tools.tools_options import read_bounds
from graph_runtime import Calculator, CalculatorContext, Code, GraphError, In, Options, Out, SideIn
from protos import messages


class OfferToolsCalculator(Calculator):
    """Adds the tools of a `ToolsCalculator` to each request.

    Inputs: REQUEST: a `GenerationRequest`.
    Outputs: REQUEST: the same with tools.
    Input side packets: TOOLS, the one of the `ToolsCalculator`.

    All tools are offered, unless the request names servers by their labels (``mcp_servers`` of the
    messages API, tools of the type ``mcp`` of the responses API). A request that names a tool of
    its own, wants no calls (``tool_choice: "none"``, ``max_tool_calls: 0``), or is a completion
    gets none; with ``max_turns: 1`` or ``max_calls: 0`` no request gets any. Refused are
    n > 1, a tool of the client with the name of one here, and a server that is not here.
    """

    request = In[GenerationRequest]("REQUEST")
    offered = Out[GenerationRequest]("REQUEST")
    tools = SideIn[dict[str, Any]]("TOOLS")

    def open(self, cc: CalculatorContext) -> None:
        found = cc.side(self.tools)
        if len(found) != 1:
            raise GraphError(
                f"the side packet of {cc.node_name} has the tools of {len(found)} nodes; give each "
                f"ToolsCalculator a side packet of its own",
                code=Code.FAILED_PRECONDITION,
            )
        (self._toolbox,) = found.values()

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.offered, offer_tools(cc.get(self.request), self._toolbox))


class ToolsCalculator(Calculator):
    """Runs the calls of this server's tools, and asks the model again until it answers.

    Inputs: DELTAS: of the model.
    Outputs: DELTAS: the answer, with the text of all turns and without calls of this server's
        tools; `ToolCalled` and `ToolRan` say which were made, and usage is the sum of all turns.
        REQUEST: the request of each further turn, a back edge to the model.
    Input side packets: TOOLS, which a server supplies.
    Options: ``graphrt.ToolsOptions``: the servers and Python modules with tools, and the bounds of
        a request.

    The calls of one turn run at the same time, and the model gets their results in the order of the
    calls. A call that fails is a result, too: the model reads why. When ``max_turns`` is near, the
    last turn gets no tools, so that the model has to answer. At the other bounds the answer ends
    with the reason "length".

    ::

        node {
          calculator: "OfferToolsCalculator"
          input_stream: "REQUEST:asked"
          output_stream: "REQUEST:request"
          input_side_packet: "TOOLS:tools"
        }
        node {
          name: "LLMExecutor"
          calculator: "LLMCalculator"
          input_stream: "REQUEST:0:request"
          input_stream: "REQUEST:1:again"
          ...
          output_stream: "DELTAS:said"
        }
        node {
          name: "tools"
          calculator: "ToolsCalculator"
          input_stream: "DELTAS:said"
          output_stream: "DELTAS:shown"
          output_stream: "REQUEST:again"
          input_side_packet: "TOOLS:tools"
          node_options {
            [type.googleapis.com/graphrt.ToolsOptions] {
              server { label: "weather" command: "python" args: "weather.py" allow: "get_*" }
            }
          }
        }
    """

    deltas = In[Deltas]("DELTAS")
    shown = Out[Deltas]("DELTAS")
    again = Out[GenerationRequest]("REQUEST")
    tools = SideIn[dict[str, Any]]("TOOLS")
    options = Options(messages.ToolsOptions)
    # One call may show several packets: items as tools run, before the calls are over.
    timestamp_offset = None
    settles_outputs = True

    def open(self, cc: CalculatorContext) -> None:
        toolbox: Toolbox | None = cc.side(self.tools).get(cc.node_name)
        if toolbox is None:
            raise GraphError(
                f"Could not find initialized tools node named: {cc.node_name}",
                code=Code.FAILED_PRECONDITION,
            )
        self._toolbox = toolbox
        self._bounds = read_bounds(self.options)
        self._loop = ToolLoop(toolbox, self._bounds, cc.node_name)
        self._time = 0

    def process(self, cc: CalculatorContext) -> Awaitable[None] | None:
        if self._loop.is_over:
            self._loop = ToolLoop(self._toolbox, self._bounds, cc.node_name)
        packet = cc.get(self.deltas)
        self._show(cc, self._loop.feed(packet))
        if self._loop.is_due:
            return self._run(cc)
        self._settle(cc)
        return None

    async def _run(self, cc: CalculatorContext) -> None:
        async with aclosing(self._loop.run()) as items:
            async for item in items:
                self._show(cc, (item,))
                cc.flush()
        if self._loop.again is not None:
            cc.emit(self.again, self._loop.again, at=max(cc.time, self._time))
        self._settle(cc)

    def _show(self, cc: CalculatorContext, items: Sequence[Delta]) -> None:
        if items:
            self._time = max(cc.time, self._time)
            cc.emit(
                self.shown, items if isinstance(items, Deltas) else Deltas(items), at=self._time
            )
            self._time += 1

    def _settle(self, cc: CalculatorContext) -> None:
        """Promise on both outputs that nothing before the next input will come."""
        bound = max(cc.time + 1, self._time)
        for port in (self.shown, self.again):
            cc.set_bound(port, bound)
