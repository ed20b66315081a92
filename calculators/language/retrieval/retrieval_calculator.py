"""`RetrievalCalculator`: passages of documents for a question, put before the conversation."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from calculators.kit.model_initializer import cache_of, host_of, model_identity
from calculators.kit.requests.request_record import set_current_record
from calculators.kit.tasks.nodes import naming_node
from calculators.language import GenerationRequest, Source
from calculators.language.retrieval.index_file import (
    FoundPassage,
    IndexFile,
    IndexFileError,
    Search,
    search_file,
)
from calculators.language.retrieval.index_paths import CALCULATOR, OPTIONS_TYPE
from calculators.language.retrieval.retriever import (
    RetrievalOptions,
    Retriever,
    embedder_of,
    make_index_search,
    open_index,
    read_retrieval_options,
)
from calculators.text.text_models.model_options import compiled_entry
from graph_runtime import (
    Calculator,
    CalculatorContext,
    Code,
    GraphError,
    In,
    NodePlan,
    NodeResource,
    Options,
    Out,
    ResourceError,
    ResourceSettings,
    SideIn,
)

RESOURCES_TAG: Final = "RETRIEVAL_NODE_RESOURCES"

_log: Final = logging.getLogger("graphrt.retrieval")


class RetrievalResourceInitializer:
    """Opens the index of every `RetrievalCalculator`, and loads its embedding model."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator == CALCULATOR

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        options = read_retrieval_options(node, settings)
        with naming_node(node):
            open_index(options).close()
        return ()

    async def make(self, node: NodePlan, settings: ResourceSettings) -> Retriever:
        options = await asyncio.to_thread(read_retrieval_options, node, settings)
        name = settings.model_name or node.config.name
        with naming_node(node):
            index, search = await asyncio.to_thread(_opened, options)
            _log.info("%s: %d passages in %s", name, index.count, options.index_name)
            embedder = embedder_of(index, options)
            entry = await asyncio.to_thread(
                compiled_entry, embedder.model, cache_of(settings), embedder.head
            )
            retriever = Retriever(options, index, search, host_of(node, settings, entry))
            await retriever.start(settings.progress)
        return retriever

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`."""
        options = read_retrieval_options(node, settings)
        model = options.embedder.model
        return model_identity(
            model, paths=(model.directory, options.index, search_file(options.index))
        )

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> Retriever:
        """Return the index and the model of ``resource`` with the other options of ``node``."""
        assert isinstance(resource, Retriever)
        return resource.with_options(
            await asyncio.to_thread(read_retrieval_options, node, settings)
        )


def _opened(options: RetrievalOptions) -> tuple[IndexFile, Search]:
    index = open_index(options)
    try:
        return index, make_index_search(index)
    except IndexFileError as error:
        index.close()
        raise ResourceError(f"index: {error}") from None


_BEGIN: Final = "<passages>"
_END: Final = "</passages>"
#: Characters of a passage that are worth quoting when no more fit.
_LEAST: Final = 100
_MORE: Final = " [...]"
#: The beginnings of tags of chat templates, of the marks of images and of the marks around the
#: passages: ``<|im_start|>``, ``</s>``, ``<start_of_turn>``, ``[INST]``, ``[gMASK]``.
_TAG: Final = re.compile(r"<(?=[/|\uff5cA-Za-z_])|\[(?=/?[A-Za-z]?[A-Z_]{3,}\])")


def escape_tags(text: str) -> str:
    """Return a text that holds no tag of any chat template: a space follows what begins one.

    Tags differ from model to model, so everything that looks like one is changed; people and models
    read it as before. Tokenizers find the special token ``<|im_end|>`` in a text wherever it is, so
    a document with it could end the message that quotes it.
    """
    return _TAG.sub(lambda match: f"{match[0]} ", text)


def quote_passages(
    found: Sequence[FoundPassage], instruction: str, max_characters: int, *, first: int = 1
) -> tuple[str, tuple[Source, ...]]:
    """Return a text with passages, and the passages as sources.

    Each passage has its number in brackets, its path and its line above it.

    Args:
        max_characters: of all passages with their numbers, paths and lines. The one that does not
            fit is cut off, and the ones after it are left out.
        first: the number of the first passage.

    Returns:
        "" and no sources if there are no passages, or if not even the first one fits.
    """
    blocks: list[str] = []
    sources: list[Source] = []
    room = max_characters
    for mark, each in enumerate(found, first):
        path = escape_tags(each.path)
        head = f"[{mark}] {path}:{each.line}\n"
        if each.title:
            head += f"{escape_tags(each.title)}\n"
        body = escape_tags(each.text)
        is_cut = len(head) + len(body) > room
        if is_cut:
            left = room - len(head) - len(_MORE)
            if left < _LEAST:
                break
            body = _cut(body, left) + _MORE
        blocks.append(head + body)
        sources.append(Source(mark, f"{each.path}:{each.line}", each.text, each.path))
        room -= len(blocks[-1])
        if is_cut:
            break
    if not blocks:
        return "", ()
    return "\n\n".join((instruction, _BEGIN, *blocks, _END)), tuple(sources)


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, up to the end of a line or a word if one is near."""
    beginning = text[:most]
    place = max(beginning.rfind("\n"), beginning.rfind(" "))
    return beginning[:place] if place > most // 2 else beginning


class RetrievalCalculator(Calculator):
    """Finds the passages of an index for the user's question, and quotes them in the request.

    The text of the user's last message is embedded; the nearest passages are put before the
    conversation, into the system message, each with a number, its path and its line. Their list
    goes along as the request's sources: answers of the responses API cite those whose numbers
    they name. ``graphrt index`` makes the index.

    ::

        node {
          name: "retrieval"
          calculator: "RetrievalCalculator"
          input_side_packet: "RETRIEVAL_NODE_RESOURCES:retrieval"
          input_stream: "REQUEST:request"
          output_stream: "REQUEST:with_passages"
          node_options {
            [type.googleapis.com/graphrt.RetrievalOptions] {
              index: "docs.db"
              models_path: "../models/minilm"
              k: 4
            }
          }
        }
    """

    request = In[GenerationRequest]("REQUEST")
    with_passages = Out[GenerationRequest]("REQUEST")
    resources = SideIn[dict[str, Any]]("RETRIEVAL_NODE_RESOURCES")
    options = Options(OPTIONS_TYPE)

    def open(self, cc: CalculatorContext) -> None:
        retriever: Retriever | None = cc.side(self.resources).get(cc.node_name)
        if retriever is None:
            raise GraphError(
                f'the node "{cc.node_name}" has no index: the side packet does not have its name',
                code=Code.FAILED_PRECONDITION,
            )
        self._retriever = retriever

    async def process(self, cc: CalculatorContext) -> None:
        request = cc.get(self.request)
        if request.refusal is None:
            request = await self._with_passages(request)
        cc.emit(self.with_passages, request)

    async def _with_passages(self, request: GenerationRequest) -> GenerationRequest:
        # Clients take turns in the model's process; this task may be anybody's.
        set_current_record(request.record)
        options = self._retriever.options  # of this node, checked
        found = await self._retriever.find(request.last_text())
        # An earlier node of this kind may have numbered passages; numbers go on from there.
        first = max((source.mark for source in request.sources), default=0) + 1
        text, sources = quote_passages(
            found, options.instruction, options.max_characters, first=first
        )
        if not text:
            return request
        return replace(request.with_system(text), sources=(*request.sources, *sources))
