"""Facts about a server of language models, in the forms of vLLM, llama.cpp, SGLang and TGI."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import DEFAULT_MODEL, Members, read_members, table
from calculators.kit.requests.request_record import current_record
from calculators.language.delta import Failed
from calculators.language.generation_request import Api, GenerationRequest
from calculators.llm.requests.completions_request import CHAT_MEMBERS, ChatRequest
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.token_requests import MEMBERS as TOKENS_MEMBERS
from calculators.llm.token_requests import chat_of
from graph_runtime import Code
from graphrt_base.version import version

if TYPE_CHECKING:
    from calculators.llm.servable import LlmServable


#: Bodies of `/apply-template`.
TEMPLATE_MEMBERS: Final[Members] = table(
    {name: CHAT_MEMBERS[name] for name in CHAT_MEMBERS if name in TOKENS_MEMBERS},
    DEFAULT_MODEL,
)


def _name() -> str:
    """Return the name by which the client asked for the model."""
    request = current_record()
    return "" if request is None else request.model


#: Read when the module is imported, in a thread: it is in files.
_VERSION: Final = version()


async def applied_template(servable: LlmServable, chat: ChatRequest) -> str:
    """Return the prompt of a chat; raises as `LlmServable.chat_prompt`."""
    prompt = await servable.chat_prompt(
        chat.messages, chat.images, chat.tools, chat.template, will_be_cut=not chat.images
    )
    return json.dumps({"prompt": prompt.text})


async def llama_cpp_props(servable: LlmServable, asked: None) -> str:
    """Return llama.cpp's ``/props``."""
    sampling = {
        name: value
        for name in ("temperature", "top_p", "top_k", "min_p")
        if (value := getattr(servable.defaults, name)) is not None
    }
    limits = servable.limits
    found: dict[str, Any] = {
        "default_generation_settings": {
            "n_ctx": limits.length or 0,
            "params": {**sampling, "n_predict": -1},
        },
        "total_slots": limits.queue,
        "model_alias": _name(),
        "model_path": _name(),
        "modalities": {
            "vision": limits.request.max_images > 0,
            "audio": limits.request.max_sounds > 0,
        },
        "build_info": f"graphrt {_VERSION}",
        "infill": servable.model.prompts_ready.infill_ends is not None,
    }
    if servable.settings.show_tokenizer:
        texts = servable.model.prompts_ready.texts
        found |= {
            "chat_template": texts.chat_template,
            "bos_token": texts.bos_token,
            "eos_token": texts.eos_token,
        }
    return json.dumps(found)


async def llama_cpp_slots(servable: LlmServable, asked: None) -> str:
    """Return llama.cpp's ``/slots``: there are no fixed ones, so those that are in use, and one."""
    running, most = servable.engine.running, servable.limits.queue
    return json.dumps(
        [
            {
                "id": number,
                "n_ctx": servable.limits.length or 0,
                "speculative": False,
                "is_processing": number < running,
            }
            for number in range(min(running + 1, most))
        ]
    )


async def tokenizer_info(servable: LlmServable, asked: None) -> str:
    """Return vLLM's ``/tokenizer_info``.

    Raises:
        RequestError: NOT_FOUND, the operator does not show it.
    """
    if not servable.settings.show_tokenizer:
        raise RequestError(
            "the tokenizer and the chat template are not shown here; --show_tokenizer does",
            code=Code.NOT_FOUND,
        )
    texts = servable.model.prompts_ready.texts
    return json.dumps(
        {
            "tokenizer_class": texts.kind,
            "chat_template": texts.chat_template,
            "bos_token": texts.bos_token,
            "eos_token": texts.eos_token,
            "vocab_size": len(servable.tokens.pieces),
            "model_max_length": servable.limits.length,
        }
    )


async def server_load(servable: LlmServable, asked: None) -> str:
    """Return vLLM's ``/load``."""
    return json.dumps({"server_load": servable.unfinished})


async def sglang_model_info(servable: LlmServable, asked: None) -> str:
    """Return SGLang's ``/model_info``."""
    name, request = _name(), servable.limits.request
    calls, reasoning = servable.parsers.names
    return json.dumps(
        {
            "model_path": name,
            "served_model_name": name,
            "tokenizer_path": name,
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": "default",
            "reasoning_parser": reasoning or None,
            "tool_call_parser": calls or None,
            "has_image_understanding": request.max_images > 0,
            "has_audio_understanding": request.max_sounds > 0,
            "model_type": servable.card.architecture,
            "max_context_length": servable.limits.length,
        }
    )


async def sglang_health(servable: LlmServable, asked: None) -> str:
    """Return that the engine works: it writes a token, unless it is writing others.

    Raises:
        RequestError: UNAVAILABLE, it does not work.
    """
    if not servable.engine.running:
        chats = servable.sees_images
        request = GenerationRequest(
            api=Api.CHAT if chats else Api.COMPLETIONS,
            model=_name(),
            messages=({"role": "user", "content": "a"},) if chats else (),
            prompts=() if chats else ("a",),
            sampling={"max_tokens": 1, "temperature": 0},
        )
        answer = await servable.generate(request, "")
        while not answer.is_finished:
            for item in await answer.read():
                if isinstance(item, Failed):
                    raise item.error
    return json.dumps({"status": "ok"})


async def tgi_info(servable: LlmServable, asked: None) -> str:
    """Return text-generation-inference's ``/info``."""
    limits = servable.limits
    length = limits.length
    return json.dumps(
        {
            "model_id": _name(),
            "model_sha": None,
            "model_dtype": "unknown",
            "model_pipeline_tag": "text-generation",
            "max_concurrent_requests": limits.queue,
            "max_best_of": 1,
            "max_stop_sequences": limits.request.max_stop_strings,
            "max_input_tokens": None if length is None else length - 1,
            "max_total_tokens": length,
            "max_client_batch_size": limits.request.max_prompts,
            "router": "graphrt",
            "version": _VERSION,
        }
    )


def parse_template_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> ChatRequest:
    """Check a body of ``/apply-template``; raises as `parse_chat_request`."""
    body = fields.body_object(value)
    read_members(body, TEMPLATE_MEMBERS)
    return chat_of(body, limits, defaults)
