"""`ToolsCalculator` and `OfferToolsCalculator`: tools that a model calls and this server runs.

`ToolLoop` is one answer of a model that calls them, turn by turn.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final

from msgspec import structs

from calculators.kit.requests.json_depth import nests_deeper
from calculators.kit.requests.request_record import ToolCallRecord
from calculators.language import (
    NO_TOOLS,
    Arguments,
    Begun,
    CallDone,
    Content,
    Delta,
    Deltas,
    Ended,
    Event,
    Failed,
    Finished,
    FinishReason,
    Gained,
    GenerationRequest,
    Message,
    Reasoning,
    Submitted,
    ToolCall,
    ToolCalled,
    ToolRan,
    Tools,
    Usage,
    usage_sum,
)
from calculators.language.server_tools.toolbox import Toolbox, ToolResult, names_of, offer_tools
from calculators.language.server_tools.tools_options import ToolsBounds, read_bounds
from graph_runtime import Calculator, CalculatorContext, Code, GraphError, In, Options, Out, SideIn
from protos import messages

#: Members of requests that limit the tokens of an answer.
_TOKEN_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


@dataclass(slots=True)
class _WrittenCall:
    """A call that the model wrote."""

    name: str
    call_id: str
    arguments: str = ""


@dataclass(slots=True)
class _Turn:
    """One generation.

    Attributes:
        calls: of tools of this server.
        has_client_calls: the model also called tools of the client.
        call: the call that is being written, if it is one of this server's.
        finished: the end of its only choice.
    """

    request: GenerationRequest
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[_WrittenCall] = field(default_factory=list)
    has_client_calls: bool = False
    call: _WrittenCall | None = None
    finished: Finished | None = None


class ToolLoop:
    """Follows one answer: hides calls of this server's tools, runs them, and asks again.

    `feed` takes the items of the model and returns those to show. If `is_due` is true then, the
    turn is over and `run` makes its calls; afterwards `again` is the next request to the model, or
    None if the answer is over.

    A turn that also calls tools of the client goes to the client, and the server's calls in it are
    not run: the client could not send their results back.

    Attributes:
        is_over: the answer has ended; another one needs a loop of its own.
    """

    def __init__(self, toolbox: Toolbox, bounds: ToolsBounds, node: str) -> None:
        """``node``: the node's name, for the record of a request."""
        self._toolbox = toolbox
        self._node = node
        self._bounds = bounds
        self._stopper = _Stopper()
        self._turn: _Turn | None = None
        self._turns = 0
        self._calls = 0
        self._client_calls: float = math.inf
        self._began = 0.0
        self._usage = Usage(0, 0)
        self._is_active = False
        self._is_client_call = False
        self._shown_text = ""
        self._due: _Turn | None = None
        self._token_limits: dict[str, int] = {}
        #: The request of the next turn, after `run`; None if the answer is over.
        self.again: GenerationRequest | None = None
        self.is_over = False

    @property
    def is_due(self) -> bool:
        """True if there are calls for `run`."""
        return self._due is not None

    def feed(self, items: Sequence[Delta]) -> Sequence[Delta]:
        """Take the next items of the model; return those to show."""
        if not self._is_active and not (items and isinstance(items[0], Begun | Submitted)):
            return items
        shown: list[Delta] = []
        for item in items:
            self._take(item, shown)
        return shown

    def _take(self, item: Delta, shown: list[Delta]) -> None:
        match item:
            case Begun():
                self._begin(item, shown)
            case Submitted(stop):
                self._stopper.take(stop)
                if self._turns == 0:
                    shown.append(structs.replace(item, stop=self._stopper.stop))
            case Gained() if self._is_active:
                gained = self._gain(item)
                if gained is not None:
                    shown.append(gained)
            case Finished() if self._is_active:
                self._finish(item, shown)
            case Ended(usage) if self._is_active:
                self._usage = usage_sum(self._usage, usage)
                if self._due is None:
                    shown.append(Ended(self._usage))
                    self._end()
            case Failed():
                shown.append(item)
                self._end()
            case _:
                shown.append(item)

    def _begin(self, begun: Begun, shown: list[Delta]) -> None:
        request = begun.request
        if self._turns == 0:
            self._is_active = any(name in self._toolbox.tools for name in names_of(request.tools))
            if not self._is_active:
                shown.append(begun)
                return
            self._began = time.monotonic()
            if request.max_tool_calls is not None:
                self._client_calls = request.max_tool_calls
            self._token_limits = {
                name: request.sampling[name]
                for name in _TOKEN_LIMITS
                if isinstance(request.sampling.get(name), int)
            }
            shown.append(structs.replace(begun, stop=self._stopper.stop))
        self._turns += 1
        self._stopper.take(begun.stop)
        self._turn = _Turn(request)

    def _gain(self, gained: Gained) -> Gained | None:
        """Return what is left of a group without calls of this server; None if nothing is."""
        turn = self._turn
        assert turn is not None
        shown: list[Event] = []
        for event in gained.events:
            match event:
                case ToolCall(name, call_id):
                    self._is_client_call = self._is_clients(name, turn.request)
                    if self._is_client_call:
                        turn.has_client_calls = True
                        turn.call = None
                        shown.append(event)
                    else:
                        turn.call = _WrittenCall(name, call_id)
                        turn.calls.append(turn.call)
                case Arguments(text) if not self._is_client_call:
                    if turn.call is not None:
                        turn.call.arguments += text
                case CallDone() if not self._is_client_call:
                    turn.call = None
                case Content(text):
                    if turn.calls and not text.strip():
                        continue  # the space between calls
                    shown.append(self._show_text(text, turn))
                case Reasoning(text):
                    turn.reasoning.append(text)
                    shown.append(event)
                case _:
                    shown.append(event)
        usage = gained.usage
        if usage is not None and self._turns > 1:
            usage = usage_sum(self._usage, usage)
        if len(shown) == len(gained.events):
            is_nothing = not shown and gained.logprobs is None and not gained.token_ids
            return None if is_nothing else structs.replace(gained, events=tuple(shown), usage=usage)
        if not shown:
            return None
        return structs.replace(
            gained, events=tuple(shown), usage=usage, logprobs=None, token_ids=()
        )

    def _show_text(self, text: str, turn: _Turn) -> Content:
        """Return text as the client gets it: a paragraph of its own after calls that it does not
        see."""
        is_first = not turn.content
        turn.content.append(text)
        last = self._shown_text
        self._shown_text = text
        servers = turn.request.tool_servers
        if is_first and last and not servers and not (last[-1].isspace() or text[0].isspace()):
            return Content(f"\n\n{text}")
        return Content(text)

    def _is_clients(self, name: str, request: GenerationRequest) -> bool:
        """True if the client runs the calls of a tool. Nobody's tool is the client's if it sent
        any: it learns of the model's mistake as from any model."""
        if name in self._toolbox.tools:
            return False
        return any(each not in self._toolbox.tools for each in names_of(request.tools))

    def _finish(self, finished: Finished, shown: list[Delta]) -> None:
        turn = self._turn
        assert turn is not None
        runs = (
            bool(turn.calls)
            and not turn.has_client_calls
            and finished.reason is FinishReason.TOOL_CALLS
            and not self._stopper.is_stopped
        )
        why_not = self._exceeded(len(turn.calls)) if runs else ""
        if why_not:
            shown.append(structs.replace(finished, reason=FinishReason.LENGTH))
            for call in turn.calls:
                self._note(call, turn.request, why_not)
        elif runs:
            turn.finished = finished
            self._due = turn
        else:
            shown.append(finished)

    def _exceeded(self, calls: int) -> str:
        """Return the bound of the request that so many further calls would exceed; "" for none."""
        bounds = self._bounds
        if self._turns >= bounds.max_turns:
            return "max_turns"
        if self._calls + calls > bounds.max_calls:
            return "max_calls"
        if self._calls + calls > self._client_calls:
            return "max_tool_calls"
        return "total_seconds" if time.monotonic() - self._began > bounds.total_seconds else ""

    # Between two turns ----------------------------------------------------------------------------

    async def run(self) -> AsyncGenerator[Delta, None]:
        """Make the calls of a turn, all at the same time; yield the items to show.

        `ToolCalled` of each call comes first, then `ToolRan` in the same order, each as soon as it
        can. If the answer is stopped meanwhile, the calls are given up and its end is yielded.
        """
        turn, self._due = self._due, None
        assert turn is not None
        assert turn.finished is not None
        choice = turn.finished.choice
        self._calls += len(turn.calls)
        for call in turn.calls:
            yield ToolCalled(
                choice, call.call_id, call.name, self._label(call.name), call.arguments
            )
        results: list[ToolResult] = []
        stopped = asyncio.ensure_future(self._stopper.wait())
        running = [asyncio.create_task(self._call(call, turn.request)) for call in turn.calls]
        try:
            for call, task in zip(turn.calls, running, strict=True):
                await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
                if not task.done():
                    break
                result, seconds = task.result()
                results.append(result)
                yield ToolRan(
                    choice,
                    call.call_id,
                    call.name,
                    self._label(call.name),
                    call.arguments,
                    result.output,
                    result.error,
                    seconds,
                )
        finally:
            left: list[asyncio.Future[Any]] = [stopped, *running]
            for each in left:
                each.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        self.again = None
        if not self._stopper.is_stopped:
            self.again = self._next_request(turn, results)
        if self.again is None:
            reason = FinishReason.STOP if self._stopper.is_stopped else FinishReason.LENGTH
            yield structs.replace(turn.finished, reason=reason)
            yield Ended(self._usage)
            self._end()

    def _end(self) -> None:
        self.is_over = True
        self._stopper.take(_nothing)  # which holds the generation

    def _label(self, name: str) -> str:
        spec = self._toolbox.tools.get(name)
        return "" if spec is None else spec.server

    async def _call(
        self, call: _WrittenCall, request: GenerationRequest
    ) -> tuple[ToolResult, float]:
        """Make one call; failures are results, too. Returns the seconds that it took as well."""
        noted = self._note(call, request)
        began = time.monotonic()
        if call.name not in self._toolbox.tools:
            known = ", ".join(self._toolbox.tools)
            result = ToolResult("", f'there is no tool "{call.name[:64]}"; the tools are: {known}')
        else:
            result = await self._toolbox.call(call.name, call.arguments)
        if noted is not None:
            noted.end(len(result.output.encode()), result.error is not None)
        return result, time.monotonic() - began

    def _note(
        self, call: _WrittenCall, request: GenerationRequest, why_not: str = ""
    ) -> ToolCallRecord | None:
        """Add a call to the record of the request; ``why_not``: the bound that keeps it from
        running."""
        if request.record is None:
            return None
        noted = request.record.begin_tool_call(
            self._node, call.name, self._label(call.name), call.arguments
        )
        noted.exceeded = why_not
        return noted

    def _next_request(self, turn: _Turn, results: Sequence[ToolResult]) -> GenerationRequest | None:
        """Return the request of the next turn; None if no tokens are left for it."""
        request = turn.request
        sampling = dict(request.sampling)
        for name, limit in self._token_limits.items():
            sampling[name] = limit - self._usage.completion_tokens
            if sampling[name] <= 0:
                return None
        said: Message = {"role": "assistant", "content": "".join(turn.content)}
        if turn.reasoning:
            said["reasoning_content"] = "".join(turn.reasoning)
        said["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": _json_object(call.arguments)},
            }
            for call in turn.calls
        ]
        gave: list[Message] = [
            {
                "role": "tool",
                "tool_call_id": call.call_id,
                "name": call.name,
                "content": result.text,
            }
            for call, result in zip(turn.calls, results, strict=True)
        ]
        # In the last turn the model has to answer. A call that was required has been made.
        is_last = self._turns + 1 >= self._bounds.max_turns
        tools = NO_TOOLS if is_last else replace(request.tools, choice="auto")
        if self._calls >= self._client_calls:
            tools = self._clients_only(tools)
        return replace(
            request,
            messages=(*request.messages, said, *gave),
            tools=tools,
            sampling=sampling,
            turn=request.turn + 1,
        )

    def _clients_only(self, tools: Tools) -> Tools:
        """Return tools without this server's: the client allows no further calls of them."""
        kept = [
            place for place, name in enumerate(names_of(tools)) if name not in self._toolbox.tools
        ]
        if not kept:
            return NO_TOOLS
        paths = tools.schema_paths
        return replace(
            tools,
            items=[tools.items[place] for place in kept],
            schema_paths=tuple(paths[place] for place in kept if place < len(paths)),
        )


class _Stopper:
    """Stops the generation that is under way, and keeps a next one from beginning."""

    def __init__(self) -> None:
        self._inner: Callable[[], None] = _nothing
        self.is_stopped = False
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def take(self, stop: Callable[[], None]) -> None:
        """Take the ``stop`` of the generation that is under way now."""
        self._inner = stop
        if self.is_stopped:
            stop()

    def stop(self) -> None:
        """The ``stop`` of the whole answer; any thread may call it."""
        self.is_stopped = True
        self._inner()
        if self._waiting is not None:
            loop, event = self._waiting
            loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """Return when the answer is stopped."""
        event = asyncio.Event()
        self._waiting = asyncio.get_running_loop(), event
        try:
            if not self.is_stopped:
                await event.wait()
        finally:
            self._waiting = None


def _nothing() -> None:
    return


def _json_object(arguments: str) -> str:
    """Return arguments as templates can take them: a model may not have written JSON."""
    try:
        is_too_deep = nests_deeper(arguments)
        value: Any = None if is_too_deep else json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return arguments if arguments.strip() else "{}"
    return json.dumps({"INVALID_JSON": arguments})


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
