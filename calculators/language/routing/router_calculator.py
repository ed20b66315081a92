"""`RouterCalculator`: chooses the model that answers a request."""

from __future__ import annotations

from typing import Any

from calculators.language import GenerationRequest, LanguageModel
from calculators.language.routing.route import OPTIONS, choose, routes_of
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    In,
    Options,
    Out,
    SideIn,
)


class RouterCalculator(Calculator):
    """Sends each request to the first route whose conditions hold and which has room.

    A route is down while its engine is, and full with ``max_waiting`` unfinished requests; then the
    next one that takes the request gets it. If none has room, the least busy one does.

    Inputs:
        REQUEST (GenerationRequest)
        LABEL (str, optional): a class of the request, from a RequestLabelCalculator or a node of
            the author's own; with the request's timestamp.
    Outputs: REQUEST:i (GenerationRequest): one for each route, in their order.
    Input side packets: LLM_NODE_RESOURCES (optional): the models, for their queues.
    Options (graphrt.RouterOptions):
        route: name, node, and the conditions min_prompt_characters, max_prompt_characters, word,
            expression, model, label, has_tools, has_images, max_waiting.
        model_in_answer: ROUTE (the route's name) or CLIENT (the name that the client asked for).

    ::

        node {
          calculator: "RouterCalculator"
          input_stream: "REQUEST:request"
          output_stream: "REQUEST:0:short"
          output_stream: "REQUEST:1:long"
          input_side_packet: "LLM_NODE_RESOURCES:llm"
          node_options {
            [type.googleapis.com/graphrt.RouterOptions] {
              route { name: "small" max_prompt_characters: 2000 max_waiting: 8 }
              route { name: "large" }
            }
          }
        }
    """

    request = In[GenerationRequest]("REQUEST")
    label = In[str]("LABEL", optional=True)
    routes = Out[GenerationRequest]("REQUEST", multiple=True)
    models = SideIn[dict[str, Any]]("LLM_NODE_RESOURCES", optional=True)
    options = Options(OPTIONS)
    chooses_output = True

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        routes = routes_of(contract.options(OPTIONS).SerializeToString())
        count = contract.outputs.num_entries("REQUEST")
        contract.require(
            count == len(routes),
            f"each route needs an output stream REQUEST: there are {len(routes)} routes and "
            f"{count} streams",
        )
        if not contract.inputs.has_tag("LABEL"):
            named = next((route.name for route in routes if "label" in route.conditions), None)
            contract.require(
                named is None,
                f'route "{named}" asks for a label: connect input_stream: "LABEL:..."',
            )
        if not contract.input_side_packets.has_tag("LLM_NODE_RESOURCES"):
            named = next((route.name for route in routes if route.max_waiting is not None), None)
            contract.require(
                named is None,
                f'route "{named}" has max_waiting, which needs the queues of the models: add '
                f'input_side_packet: "LLM_NODE_RESOURCES:llm"',
            )

    def open(self, cc: CalculatorContext) -> None:
        self._routes = routes_of(self.options.SerializeToString())
        self._names_route = self.options.model_in_answer == 0
        resources = cc.side(self.models, None)
        self._models: list[LanguageModel | None] = [None] * len(self._routes)
        if resources is None:
            return
        for place, route in enumerate(self._routes):
            model = resources.get(route.node)
            if model is None:
                raise GraphError(
                    f'route "{route.name}": no node "{route.node}" has a language model; the graph '
                    f"has {', '.join(resources) or 'none'}. Name the node behind the route: "
                    f'node: "..."',
                    code=Code.FAILED_PRECONDITION,
                )
            self._models[place] = model

    def process(self, cc: CalculatorContext) -> None:
        if cc.is_empty(self.request):
            return
        request = cc.get(self.request)
        label = cc.get(self.label, "")
        choice = choose(self._routes, self._models, request, label)
        name = self._routes[choice.place].name
        if request.record is not None:
            request.record.note_route(name, choice.why, choice.passed_over)
        if self._names_route:
            request = request.answered_by(name)
        cc.outputs["REQUEST", choice.place].add(request, cc.time)
