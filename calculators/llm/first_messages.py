"""The first messages to the processes of a model, as its loading will send them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.msgpack import encode

from calculators.kit.model_initializer import cache_of, conversions_of
from calculators.llm.engine.process_engine import engine_load
from calculators.llm.model_files.model_length import read_model_length
from calculators.llm.model_source import files_known_now
from calculators.llm.options.llm_settings import LlmSettings
from calculators.llm.options.node_options import read_node_options
from calculators.llm.prompt.client import prompt_load
from graph_runtime import NodePlan, ResourceSettings


def first_messages(node: NodePlan, settings: ResourceSettings) -> Mapping[str, bytes]:
    """Return the messages by module; see `calculators.kit.tasks.task.Task`.

    Empty if loading has to make files first.

    Raises:
        ResourceError: an option of the node is wrong.
    """
    options = read_node_options(node, settings)
    known = files_known_now(options, cache_of(settings), conversions_of(settings))
    if known is None:
        return {}
    path, engine = known
    length = read_model_length(options.model_path)
    sees_images = options.engine.kind.sees_images
    return {
        "calculators.llm.engine.process": encode(engine_load(engine)),
        "calculators.llm.prompt.process": encode(
            prompt_load(
                str(path),
                max_tokens=length,
                sees_images=sees_images,
                special_tokens_in_text=settings.of(LlmSettings).special_tokens_in_text,
                template_directory=options.template_directory,
            )
        ),
    }
