"""`RouterCalculator`: chooses the model that answers a request.

Its routes are tried in their order: the first whose conditions hold and that has room gets the
request. `RequestLabelCalculator` makes one of these conditions, the class of the user's message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, NamedTuple

from calculators.kit.tasks.nodes import node_resource
from calculators.language import GenerationRequest, LanguageModel, RequestError
from calculators.language.generation_request import text_of_content
from calculators.text.text_classification.classifier import TextClassifier
from calculators.text.text_classification.node_options import TextClassificationCalculatorOVOptions
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphConfigError,
    GraphError,
    In,
    Options,
    Out,
    SideIn,
)
from protos import messages

_log: Final = logging.getLogger("graphrt.text_classification")
#: The characters at the beginning of the user's last message that are classified.
MOST_READ: Final = 16_384


class RequestLabelCalculator(Calculator):
    """Gives the class with the highest score of the user's last message.

    A request that is refused, has no text, has no class with a score of ``label_threshold``, or
    comes while the classifier is down has the label "", so that a router's last route takes it.

    Inputs: REQUEST (GenerationRequest).
    Outputs: LABEL (str), with the request's timestamp: for a RouterCalculator.
    Options (graphrt.TextClassificationCalculatorOVOptions): as TextClassificationCalculatorOV.

    ::

        node {
          name: "topic"
          calculator: "RequestLabelCalculator"
          input_side_packet: "TEXT_CLASSIFICATION_NODE_RESOURCES:classifier"
          input_stream: "REQUEST:request"
          output_stream: "LABEL:topic"
          node_options {
            [type.googleapis.com/graphrt.TextClassificationCalculatorOVOptions] {
              models_path: "topics"
            }
          }
        }
    """

    request = In[GenerationRequest]("REQUEST")
    label = Out[str]("LABEL")
    resources = SideIn[dict[str, Any]]("TEXT_CLASSIFICATION_NODE_RESOURCES")
    options = Options(TextClassificationCalculatorOVOptions)

    def open(self, cc: CalculatorContext) -> None:
        self._classifier: TextClassifier = node_resource(cc, self.resources, "text classification")

    async def process(self, cc: CalculatorContext) -> None:
        request = cc.get(self.request)
        text = request.last_text()[:MOST_READ]
        label = ""
        if text.strip() and request.refusal is None:
            # Half of a surrogate pair has no UTF-8.
            text = text.encode(errors="replace").decode()
            try:
                scores = await self._classifier.scores_of(text)
                best = int(scores.argmax())
                classes = self._classifier.classes
                if scores[best] >= classes.label_threshold:
                    label = classes.labels[best]
            except RequestError as error:
                _log.warning("%s: a request has no label: %s", cc.node_name, error.message)
        cc.emit(self.label, label)


#: The message of a router's options.
OPTIONS = messages.RouterOptions
#: The characters at the beginning of a message in which words and expressions are looked for.
MOST_SEARCHED: Final = 16_384
#: Seconds for one expression over them. An expression that takes longer is not found.
_MOST_SECONDS: Final = 0.02
_CHARACTERS_OF_TOKEN: Final = 4


class RouteChoice(NamedTuple):
    """The route of a request.

    Attributes:
        place: the route's number.
        why: the conditions by which it took the request, such as "max_prompt_characters"; "default"
            if it has none; "least waiting" if all routes were full.
        passed_over: names of earlier routes that would have taken the request, but were full or
            down.
    """

    place: int
    why: str
    passed_over: tuple[str, ...] = ()


class ModelRoute:
    """One route: its name and its conditions.

    Attributes:
        node: the name of the LLM node that it leads to.
        conditions: the names of the options that are conditions of the request.
    """

    def __init__(self, options: messages.RouterOptions.Route) -> None:
        """Compile a ``RouterOptions.Route``.

        Raises:
            GraphConfigError: the route has no name, or an expression does not compile.
        """
        self.name: str = options.name
        self.node: str = options.node or options.name
        if not self.name:
            raise GraphConfigError('a route has no name: write route { name: "small" ... }')
        self.max_waiting: int | None = (
            options.max_waiting if options.HasField("max_waiting") else None
        )
        self._tests: dict[str, Callable[[GenerationRequest, str], bool]] = {}
        self._add_tests(options)

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(self._tests)

    def takes(self, request: GenerationRequest, label: str) -> bool:
        """Return True if all conditions hold. ``label``: see `RouterCalculator`; "" without one."""
        return all(test(request, label) for test in self._tests.values())

    def has_room(self, model: LanguageModel | None) -> bool:
        """Return True unless the model of the route is down, or has as many requests as it may."""
        if model is None:
            return True
        if model.unavailable_reason:
            return False
        return self.max_waiting is None or model.unfinished < self.max_waiting

    def _add_tests(self, options: messages.RouterOptions.Route) -> None:
        for name in ("word", "expression"):
            if "" in getattr(options, name):
                raise GraphConfigError(
                    f'route "{self.name}": {name}: an empty text is in every request; leave it out'
                )
        if (
            options.HasField("min_prompt_characters")
            and options.HasField("max_prompt_characters")
            and options.min_prompt_characters > options.max_prompt_characters
        ):
            raise GraphConfigError(
                f'route "{self.name}": min_prompt_characters {options.min_prompt_characters} is '
                f"above max_prompt_characters {options.max_prompt_characters}, so it takes no "
                f"request"
            )
        if options.HasField("min_prompt_characters"):
            least = options.min_prompt_characters
            self._tests["min_prompt_characters"] = lambda request, _: length_of(request) >= least
        if options.HasField("max_prompt_characters"):
            most = options.max_prompt_characters
            self._tests["max_prompt_characters"] = lambda request, _: length_of(request) <= most
        if options.word or options.expression:
            name = "word" if options.word else "expression"
            self._tests[name] = _search(self.name, options.word, options.expression)
        if options.model:
            models = tuple(options.model)
            self._tests["model"] = lambda request, _: any(
                fnmatchcase(request.model, model) for model in models
            )
        if options.label:
            labels = frozenset(options.label)
            self._tests["label"] = lambda _, label: label in labels
        if options.HasField("has_tools"):
            has_tools = options.has_tools
            self._tests["has_tools"] = lambda request, _: bool(request.tools.items) == has_tools
        if options.HasField("has_images"):
            has_images = options.has_images
            self._tests["has_images"] = lambda request, _: bool(request.images) == has_images


@lru_cache(maxsize=64)
def routes_of(serialized: bytes) -> tuple[ModelRoute, ...]:
    """Return the routes of serialized ``RouterOptions``. They are the same in every run.

    Raises:
        GraphConfigError: they are not as the calculator needs them; the text says what is wrong.
    """
    options = messages.RouterOptions.FromString(serialized)
    routes = tuple([ModelRoute(each) for each in options.route])
    names = [route.name for route in routes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise GraphConfigError(f'two routes are called "{twice}": each needs a name of its own')
    if not routes:
        raise GraphConfigError('no route: write route { name: "small" ... } and so on')
    if conditions := routes[-1].conditions:
        raise GraphConfigError(
            f'the last route, "{names[-1]}", must take every request that no other takes: leave '
            f"out {', '.join(conditions)}, or add a route without conditions"
        )
    return routes


def choose(
    routes: Sequence[ModelRoute],
    models: Sequence[LanguageModel | None],
    request: GenerationRequest,
    label: str = "",
) -> RouteChoice:
    """Choose the first route that takes the request and has room; if none has, the least busy.

    ``models``: the model of each route; None if it is unknown.
    """
    takers = [place for place, route in enumerate(routes) if route.takes(request, label)]
    full: list[int] = []
    for place in takers:
        if routes[place].has_room(models[place]):
            why = ",".join(routes[place].conditions) or "default"
            return RouteChoice(place, why, tuple([routes[each].name for each in full]))
        full.append(place)
    place = min(takers, key=lambda each: _business(models[each]))
    others = tuple([routes[each].name for each in full if each != place])
    return RouteChoice(place, "least waiting", others)


def _business(model: LanguageModel | None) -> tuple[bool, int]:
    return (False, 0) if model is None else (bool(model.unavailable_reason), model.unfinished)


def length_of(request: GenerationRequest) -> int:
    """Return the number of characters of a request's messages or prompts."""
    count = sum(len(text_of_content(message.get("content"))) for message in request.messages)
    for prompt in request.prompts:
        count += len(prompt) if isinstance(prompt, str) else _CHARACTERS_OF_TOKEN * len(prompt)
    return count


def _search(
    route: str, words: Sequence[str], expressions: Sequence[str]
) -> Callable[[GenerationRequest, str], bool]:
    import regex

    patterns = []
    if words:
        any_word = "|".join(map(regex.escape, words))
        patterns.append(regex.compile(rf"(?<!\w)(?:{any_word})(?!\w)", regex.IGNORECASE))
    for expression in expressions:
        try:
            patterns.append(regex.compile(expression))
        except regex.error as error:
            raise GraphConfigError(
                f'route "{route}": the expression "{expression}" is wrong: {error}'
            ) from error

    def is_found(request: GenerationRequest, label: str) -> bool:
        text = request.last_text()[:MOST_SEARCHED]
        for pattern in patterns:
            try:
                if pattern.search(text, timeout=_MOST_SECONDS):
                    return True
            # An expression that takes too long decides nothing: the request is answered all the
            # same.
            except TimeoutError:
                continue
        return False

    return is_found


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
                    f"has {', '.join(resources) or 'none'}. Name the node after the route: "
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
