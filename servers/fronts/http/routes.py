"""Endpoints by path, with their methods and the form of their errors.

Installed tasks define the endpoints of graphs; a graph may answer other paths too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from calculators.kit.tasks import (
    PREFIXES,
    ErrorForm,
    TaskEndpoint,
    endpoint_at,
    installed_tasks,
    without_prefix,
)
from servers.access import DOCS_ROUTES


class Endpoint(Enum):
    """The endpoints of the front."""

    # Members are singletons; an enum's own is a function of Python.
    __hash__ = object.__hash__

    LIVE = auto()
    READY = auto()
    HEALTH = auto()
    VERSION = auto()
    SERVER = auto()
    STATUSES = auto()
    RELOAD = auto()
    METRICS = auto()
    OPENAPI = auto()
    DOCS = auto()
    MODELS = auto()
    MODEL = auto()
    GRAPH = auto()
    # Ollama's API about models:
    OLLAMA = auto()
    # The files of the page, and what it shows:
    PAGE = auto()
    LIVE_EVENTS = auto()
    GRAPH_VIEW = auto()
    NODE_VIEW = auto()
    REQUEST_VIEW = auto()
    FOLLOW = auto()
    CALCULATORS = auto()
    CALCULATOR = auto()
    SCRATCH_CHECK = auto()
    SCRATCH_RUN = auto()
    # KServe's protocol:
    METADATA = auto()
    MODEL_READY = auto()
    INFER = auto()
    GENERATE = auto()
    GENERATE_STREAM = auto()
    INDEX = auto()
    LOAD = auto()
    UNLOAD = auto()
    # Files and batches of OpenAI's API:
    FILES = auto()
    FILE = auto()
    FILE_CONTENT = auto()
    BATCHES = auto()
    BATCH = auto()
    BATCH_CANCEL = auto()
    # The same batches in Anthropic's form:
    MESSAGE_BATCHES = auto()
    MESSAGE_BATCH = auto()
    MESSAGE_BATCH_CANCEL = auto()
    MESSAGE_BATCH_RESULTS = auto()
    # Kept responses, conversations and chat completions of OpenAI's API:
    RESPONSE = auto()
    RESPONSE_ITEMS = auto()
    RESPONSE_CANCEL = auto()
    CONVERSATIONS = auto()
    CONVERSATION = auto()
    CONVERSATION_ITEMS = auto()
    CONVERSATION_ITEM = auto()
    CHATS = auto()
    CHAT = auto()
    CHAT_MESSAGES = auto()


#: Endpoints that run a model; requests to them have a time limit.
RUNS = frozenset({Endpoint.GRAPH, Endpoint.INFER, Endpoint.GENERATE, Endpoint.GENERATE_STREAM})

#: Endpoints that change what is served: for operators.
CONTROLS = frozenset({Endpoint.RELOAD, Endpoint.LOAD, Endpoint.UNLOAD})

#: Endpoints that show what runs: for the page and for operators, never for pages of other sites.
VIEWS = frozenset(
    {
        Endpoint.LIVE_EVENTS,
        Endpoint.GRAPH_VIEW,
        Endpoint.NODE_VIEW,
        Endpoint.REQUEST_VIEW,
        Endpoint.FOLLOW,
        Endpoint.CALCULATORS,
        Endpoint.CALCULATOR,
        Endpoint.SCRATCH_CHECK,
        Endpoint.SCRATCH_RUN,
    }
)

#: Endpoints that are not there when the page is switched off.
OF_PAGE = VIEWS | {Endpoint.PAGE}


BATCHES_NOT_SERVED: Final = (
    "files and batches are not served here; the server's --batch_dir names a directory for them"
)
#: Endpoints of batches in Anthropic's form.
OF_MESSAGE_BATCHES = frozenset(
    {
        Endpoint.MESSAGE_BATCHES,
        Endpoint.MESSAGE_BATCH,
        Endpoint.MESSAGE_BATCH_CANCEL,
        Endpoint.MESSAGE_BATCH_RESULTS,
    }
)
#: Endpoints of files and batches.
OF_BATCHES = OF_MESSAGE_BATCHES | frozenset(
    {
        Endpoint.FILES,
        Endpoint.FILE,
        Endpoint.FILE_CONTENT,
        Endpoint.BATCHES,
        Endpoint.BATCH,
        Endpoint.BATCH_CANCEL,
    }
)


NOTHING_KEPT: Final = "nothing is kept here: the server's --max_stored_responses is 0"
#: Endpoints of what is kept.
OF_KEPT = frozenset(
    {
        Endpoint.RESPONSE,
        Endpoint.RESPONSE_ITEMS,
        Endpoint.RESPONSE_CANCEL,
        Endpoint.CONVERSATIONS,
        Endpoint.CONVERSATION,
        Endpoint.CONVERSATION_ITEMS,
        Endpoint.CONVERSATION_ITEM,
        Endpoint.CHATS,
        Endpoint.CHAT,
        Endpoint.CHAT_MESSAGES,
    }
)


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint with its methods, and the model's name and version when the path has them.

    Name and version are as the client sent them: there may be no such model. ``item`` is the name
    of a node in that model, the id of a request, a file, a batch or something else that is kept, or
    the name of a calculator or file. ``part``: the id of a part of it.
    """

    endpoint: Endpoint
    methods: tuple[str, ...]
    model: str = ""
    version: str = ""
    item: str = ""
    part: str = ""


_GET = ("GET", "HEAD")
POST = ("POST",)
#: The item of a route whose models are described as LM Studio does.
LM_STUDIO = "lm_studio"
#: Routes by whole path.
FIXED = {
    "/v2/health/live": Route(Endpoint.LIVE, _GET),
    "/v2/health/ready": Route(Endpoint.READY, _GET),
    # Kubernetes' names for the same; vLLM's and llama.cpp's; SageMaker's.
    "/livez": Route(Endpoint.LIVE, _GET),
    "/readyz": Route(Endpoint.READY, _GET),
    "/health": Route(Endpoint.HEALTH, _GET),
    "/ping": Route(Endpoint.HEALTH, _GET),
    "/version": Route(Endpoint.VERSION, _GET),
    "/v2": Route(Endpoint.SERVER, _GET),
    "/v2/": Route(Endpoint.SERVER, _GET),
    "/v2/repository/index": Route(Endpoint.INDEX, POST),
    "/v1/config": Route(Endpoint.STATUSES, _GET),
    "/v1/config/reload": Route(Endpoint.RELOAD, POST),
    "/metrics": Route(Endpoint.METRICS, _GET),
    "/openapi.json": Route(Endpoint.OPENAPI, _GET),
    "/": Route(Endpoint.PAGE, _GET, item="index.html"),
    "/v1/live": Route(Endpoint.LIVE_EVENTS, ("GET",)),
    "/v1/calculators": Route(Endpoint.CALCULATORS, _GET),
    "/v1/scratch/check": Route(Endpoint.SCRATCH_CHECK, POST),
    "/v1/scratch/run": Route(Endpoint.SCRATCH_RUN, POST),
    **{path: Route(Endpoint.DOCS, _GET) for path in DOCS_ROUTES},
    **{
        f"/api/{action}": Route(Endpoint.OLLAMA, methods, item=action)
        for action, methods in (
            *((word, _GET) for word in ("version", "tags", "ps")),
            *((word, POST) for word in ("show", "pull", "push", "copy", "create")),
            ("delete", ("DELETE",)),
        )
    },
    "/v3/models": Route(Endpoint.MODELS, _GET),
    "/v1/models": Route(Endpoint.MODELS, _GET),
    "/v3/v1/models": Route(Endpoint.MODELS, _GET),
    "/v1beta/models": Route(Endpoint.MODELS, _GET),
    "/api/v0/models": Route(Endpoint.MODELS, _GET, item=LM_STUDIO),
}
_PAGE_PREFIX = "/page/"
_VIEW_PREFIX = "/v1/graphs/"
_REQUEST_PREFIX = "/v1/requests/"
_CALCULATOR_PREFIX = "/v1/calculators/"
#: Google's prefix. The methods of its API stand under /v1 too.
_GOOGLE_PREFIX = "/v1beta/"
_BLOBS_PREFIX = "/api/blobs/"
_LM_STUDIO_PREFIX = "/api/v0/"
_MODEL_PREFIXES = ("/v3/models/", "/v1/models/", "/v3/v1/models/", "/v1beta/models/")
_GRAPH_PREFIXES = ("/v3/", "/v1/")
_GRAPH = Route(Endpoint.GRAPH, POST)
_CHATS = Route(Endpoint.CHATS, (*_GET, *POST))
_GRAPH_GET = Route(Endpoint.GRAPH, _GET)
_GRAPH_GET_POST = Route(Endpoint.GRAPH, (*_GET, *POST))
_KSERVE_PREFIX = "/v2/models/"
# Clients ask for the same few models: parsing a path takes as long as a node of a graph.
_KNOWN_PATHS = 256
_KSERVE_ACTIONS = {
    "infer": (Endpoint.INFER, POST),
    "generate": (Endpoint.GENERATE, POST),
    "generate_stream": (Endpoint.GENERATE_STREAM, POST),
    "ready": (Endpoint.MODEL_READY, _GET),
}
# Triton's endpoints that are not served. They are not parts of a model's name.
_KSERVE_UNSERVED = ("config", "stats")
_REPOSITORY_PREFIX = "/v2/repository/models/"
_REPOSITORY_ACTIONS = {"load": Endpoint.LOAD, "unload": Endpoint.UNLOAD}


def task_endpoints() -> tuple[TaskEndpoint, ...]:
    """Return the endpoints of all installed tasks."""
    return tuple(endpoint for task in installed_tasks() for endpoint in task.endpoints)


@cache
def _streaming_words() -> tuple[str, ...]:
    """Return the words of paths whose answers may be streams.

    OpenVINO Model Server reads ``stream`` only where a path contains one of its own, anywhere.
    """
    return tuple(
        dict.fromkeys(
            endpoint.path.rpartition("/")[2]
            for endpoint in task_endpoints()
            if endpoint.streams and endpoint.prefixes == PREFIXES
        )
    )


@cache
def _ends(*, form: ErrorForm | None = None, streams: bool | None = None) -> tuple[str, ...]:
    """Return the ends of the paths with prefixes of matching endpoints; None matches all."""
    return tuple(
        dict.fromkeys(
            endpoint.path
            for endpoint in task_endpoints()
            if endpoint.prefixes == PREFIXES
            and form in (None, endpoint.error_form)
            and streams in (None, endpoint.streams)
        )
    )


@cache
def _aliases() -> frozenset[str]:
    """Return the paths that have no prefix."""
    return frozenset(
        path
        for endpoint in task_endpoints()
        for path in endpoint.paths()
        if path in endpoint.aliases or endpoint.prefixes != PREFIXES
    )


@cache
def _whole_paths() -> dict[str, Route]:
    """Return the routes of whole paths: the server's own and the tasks'."""
    tasks = {path: _task_route(each) for each in task_endpoints() for path in each.paths()}
    lists = {path: _GRAPH_GET_POST for path in tasks if kept_list(path, "GET") is not None}
    return tasks | lists | FIXED


#: Stands for the path of the page where a client posts to it, which needs a key where keys are.
POSTED_ROOT: Final = "/generate"


def find_route(path: str, method: str = "GET") -> Route | None:
    """Return the route of a path as sent, without its query; None if there is none."""
    if path == "/" and method == "POST":
        # Text-generation-inference's clients post where the page is.
        return _GRAPH
    route = _whole_paths().get(path)
    if route is not None:
        return route
    # A proxy in front may have decided by another path than it passes on: it removes such segments,
    # the server must not.
    if _has_dot_segment(path):
        return None
    if path.startswith(_KSERVE_PREFIX):
        return _kserve_route(path[len(_KSERVE_PREFIX) :])
    if path.startswith(_REPOSITORY_PREFIX):
        return _repository_route(path[len(_REPOSITORY_PREFIX) :])
    if path.startswith(_PAGE_PREFIX):
        return Route(Endpoint.PAGE, _GET, item=path[len(_PAGE_PREFIX) :])
    if path.startswith(_VIEW_PREFIX):
        return _view_route(path[len(_VIEW_PREFIX) :])
    if path.startswith(_REQUEST_PREFIX):
        return Route(Endpoint.REQUEST_VIEW, _GET, item=_unquoted(path[len(_REQUEST_PREFIX) :]))
    if path.startswith(_CALCULATOR_PREFIX):
        name = _unquoted(path[len(_CALCULATOR_PREFIX) :])
        return Route(Endpoint.CALCULATOR, _GET, item=name)
    if path.startswith(_BLOBS_PREFIX):
        return Route(Endpoint.OLLAMA, ("HEAD", "POST"), item="blobs")
    if (endpoint := endpoint_at(path)) is not None:
        return _task_route(endpoint)  # the path names the model
    if path.startswith(f"{_LM_STUDIO_PREFIX}models/"):
        name = _unquoted(path[len(f"{_LM_STUDIO_PREFIX}models/") :])
        return Route(Endpoint.MODEL, _GET, name, item=LM_STUDIO)
    for prefix in _MODEL_PREFIXES:
        if path.startswith(prefix):
            return Route(Endpoint.MODEL, _GET, _unquoted(path[len(prefix) :]))
    if path.startswith(_GRAPH_PREFIXES) and path[4:]:
        return _batch_route(path) or _kept_route(path) or _GRAPH
    return None


def methods_at(path: str, route: Route) -> tuple[str, ...]:
    """Return the methods of a path, by the route of one of them."""
    if path == "/":
        return tuple(dict.fromkeys((*FIXED[path].methods, *POST)))
    return route.methods


def nothing_at(path: str) -> str:
    """Return the error text for a path at which nothing is served, with paths that are served.

    A path that ends like one that is served, such as ``/chat/completions`` of a client whose base
    URL has no ``/v1``, is answered with that one.
    """
    near = [end for end in (*_ends(), "/models") if path.rstrip("/").endswith(end)]
    if near:
        meant = f"/v1{max(near, key=len)}"
        if meant != path:
            return f"nothing is served at this path. Did you mean {meant}?"
    if path.startswith(_GOOGLE_PREFIX):
        there = ", ".join(sorted(each for each in _aliases() if each.startswith(_GOOGLE_PREFIX)))
        return f"nothing is served at this path; there are {there}, /v1beta/models"
    if path.startswith(_GRAPH_PREFIXES):
        whole = [alias for alias in _aliases() if alias != path and path.endswith(alias)]
        if whole:
            return f"nothing is served at this path. Did you mean {max(whole, key=len)}?"
        ends = ", ".join("/v3" + end for end in (*_ends(), "/models"))
        text = f"nothing is served at this path; there are {ends}, and the same under /v1"
        aliases = ", ".join(sorted(_aliases()))
        return f"{text}; further {aliases}" if aliases else text
    hint = "" if path.startswith("/v2/") else "; /docs shows what is, /openapi.json lists it"
    return f"nothing is served at this path{hint}"


def may_stream(path: str) -> bool:
    """Return whether ``"stream": true`` has a meaning at this path."""
    endpoint = endpoint_at(path)
    if endpoint is not None:
        return endpoint.streams
    if path.endswith(_ends(streams=False)):
        return False
    return any(word in path for word in _streaming_words())


def error_form(path: str) -> ErrorForm:
    """Return the form of errors that the clients of this path expect."""
    endpoint = None if path == "/" else endpoint_at(path)
    if endpoint is not None:
        return endpoint.error_form
    if path.startswith(_GOOGLE_PREFIX):
        return ErrorForm.GOOGLE
    if path.startswith("/api/") and not path.startswith(_LM_STUDIO_PREFIX):
        return ErrorForm.OLLAMA
    if f"{without_prefix(path)}/".startswith("messages/batches/"):
        return ErrorForm.ANTHROPIC
    if path in ("/v1/config", "/v1/config/reload", "/v2") or path.startswith("/v2/"):
        return ErrorForm.KSERVE
    is_like = path.endswith(_ends(form=ErrorForm.ANTHROPIC)) and path.startswith(_GRAPH_PREFIXES)
    # Stored chat completions have messages too.
    if is_like and _kept_route(path) is None:
        return ErrorForm.ANTHROPIC
    return ErrorForm.OPENAI


def is_shared(path: str) -> bool:
    """Return True if clients of any API may request this path, as one that no task answers."""
    route = find_route(path)
    return route is None or route.endpoint in (Endpoint.MODELS, Endpoint.MODEL, Endpoint.GRAPH)


def author_route(methods: Iterable[str]) -> Route:
    """Return the route of a path that endpoints of authors with these methods answer."""
    taken = dict.fromkeys(methods)
    if "GET" in taken:
        taken["HEAD"] = None
    return Route(Endpoint.GRAPH, tuple(taken))


def _task_route(endpoint: TaskEndpoint) -> Route:
    if "GET" not in endpoint.methods:
        return _GRAPH
    return _GRAPH_GET_POST if "POST" in endpoint.methods else _GRAPH_GET


@lru_cache(maxsize=_KNOWN_PATHS)
def _kserve_route(rest: str) -> Route | None:
    """Parse ``{model}[/versions/{version}][/{action}]`` from its end: names may have slashes.

    A name that ends like a version or an action must have its slashes encoded.
    """
    segments = rest.removesuffix("/").split("/")
    if not all(segments) or (len(segments) > 1 and segments[-1] in _KSERVE_UNSERVED):
        return None
    action = _KSERVE_ACTIONS.get(segments[-1]) if len(segments) > 1 else None
    if action is not None:
        segments.pop()
    endpoint, methods = action or (Endpoint.METADATA, _GET)
    version = ""
    if len(segments) > 2 and segments[-2] == "versions":
        version = _unquoted(segments[-1])
        del segments[-2:]
    return Route(endpoint, methods, _unquoted("/".join(segments)), version)


def _repository_route(rest: str) -> Route | None:
    model, _, action = rest.removesuffix("/").rpartition("/")
    endpoint = _REPOSITORY_ACTIONS.get(action)
    if endpoint is None or not model:
        return None
    return Route(endpoint, POST, _unquoted(model))


def _batch_route(path: str) -> Route | None:
    """Parse the paths of files and batches below the prefixes.

    ``files[/{id}[/content]]``, ``batches[/{id}[/cancel]]``, and
    ``messages/batches[/{id}[/cancel or /results]]``.
    """
    match without_prefix(path).split("/"):
        case ["files"]:
            return Route(Endpoint.FILES, (*_GET, *POST))
        case ["files", str(item)] if item:
            return Route(Endpoint.FILE, (*_GET, "DELETE"), item=item)
        case ["files", str(item), "content"] if item:
            return Route(Endpoint.FILE_CONTENT, _GET, item=item)
        case ["batches"]:
            return Route(Endpoint.BATCHES, (*_GET, *POST))
        case ["batches", str(item)] if item:
            return Route(Endpoint.BATCH, _GET, item=item)
        case ["batches", str(item), "cancel"] if item:
            return Route(Endpoint.BATCH_CANCEL, POST, item=item)
        case ["messages", "batches"]:
            return Route(Endpoint.MESSAGE_BATCHES, (*_GET, *POST))
        case ["messages", "batches", str(item)] if item:
            return Route(Endpoint.MESSAGE_BATCH, (*_GET, "DELETE"), item=item)
        case ["messages", "batches", str(item), "cancel"] if item:
            return Route(Endpoint.MESSAGE_BATCH_CANCEL, POST, item=item)
        case ["messages", "batches", str(item), "results"] if item:
            return Route(Endpoint.MESSAGE_BATCH_RESULTS, _GET, item=item)
    return None


def _kept_route(path: str) -> Route | None:
    """Parse the paths of what is kept below the prefixes, except those that run a model."""
    change = (*_GET, "DELETE")
    match [_unquoted(each) for each in without_prefix(path).split("/")]:
        case ["responses", str(item)] if item:
            return Route(Endpoint.RESPONSE, change, item=item)
        case ["responses", str(item), "input_items"] if item:
            return Route(Endpoint.RESPONSE_ITEMS, _GET, item=item)
        case ["responses", str(item), "cancel"] if item:
            return Route(Endpoint.RESPONSE_CANCEL, POST, item=item)
        case ["conversations"]:
            return Route(Endpoint.CONVERSATIONS, POST)
        case ["conversations", str(item)] if item:
            return Route(Endpoint.CONVERSATION, (*change, *POST), item=item)
        case ["conversations", str(item), "items"] if item:
            return Route(Endpoint.CONVERSATION_ITEMS, (*_GET, *POST), item=item)
        case ["conversations", str(item), "items", str(part)] if item and part:
            return Route(Endpoint.CONVERSATION_ITEM, change, item=item, part=part)
        case ["chat", "completions", str(item)] if item:
            return Route(Endpoint.CHAT, (*change, *POST), item=item)
        case ["chat", "completions", str(item), "messages"] if item:
            return Route(Endpoint.CHAT_MESSAGES, _GET, item=item)
    return None


def kept_list(path: str, method: str) -> Route | None:
    """Return the route of a list at a path whose POST runs a model; None: the model's answers."""
    return _CHATS if method in _GET and without_prefix(path) == "chat/completions" else None


def _view_route(rest: str) -> Route | None:
    """Parse ``{name}[/nodes/{node}]`` or ``{name}/follow`` from its end: names may have slashes."""
    segments = rest.removesuffix("/").split("/")
    if not all(segments):
        return None
    if len(segments) > 1 and segments[-1] == "follow":
        return Route(Endpoint.FOLLOW, POST, _unquoted("/".join(segments[:-1])))
    if len(segments) > 2 and segments[-2] == "nodes":
        name = _unquoted("/".join(segments[:-2]))
        return Route(Endpoint.NODE_VIEW, _GET, name, item=_unquoted(segments[-1]))
    return Route(Endpoint.GRAPH_VIEW, _GET, _unquoted("/".join(segments)))


def _has_dot_segment(path: str) -> bool:
    return "/." in path and any(segment in (".", "..") for segment in path.split("/"))


def _unquoted(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "replace")
