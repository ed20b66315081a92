"""Schemas of the answers of vLLM's, llama.cpp's and text-generation-inference's endpoints."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests import schema

_COUNT: Final = schema.integer(minimum=0)
_TIME: Final = schema.number(minimum=0)
_TIMINGS: Final = {
    f"{part}_{name}": form
    for part in ("prompt", "predicted")
    for name, form in {
        "n": _COUNT,
        "ms": _TIME,
        "per_token_ms": _TIME,
        "per_second": _TIME,
    }.items()
}

LLAMA_CPP_SCHEMAS: Final[dict[str, schema.Schema]] = {
    "LlamaCppTimings": schema.record(
        {"cache_n": _COUNT, **_TIMINGS},
        "Milliseconds and tokens; `prompt_n` is without the `cache_n` that were known.",
    ),
    "LlamaCppCompletion": schema.record(
        {
            "index": _COUNT,
            "content": schema.string(),
            "tokens": schema.array(schema.integer(), "With `return_tokens`."),
            "id_slot": _COUNT,
            "stop": schema.flag("False in all events but the last one of a choice."),
            "model": schema.string(),
            "tokens_predicted": _COUNT,
            "tokens_evaluated": schema.integer("Tokens of the prompt.", minimum=0),
            "generation_settings": schema.anything("The limits and the sampling that were used."),
            "prompt": schema.string("As the model got it."),
            "has_new_line": schema.flag(),
            "truncated": schema.flag(),
            "stop_type": schema.word(("eos", "limit", "word", "none"), "Why the text ends."),
            "stopping_word": schema.string(),
            "tokens_cached": _COUNT,
            "timings": schema.ref("LlamaCppTimings"),
        },
        "What `response_fields` chooses, under the names that it has there; else all.",
    ),
    "LlamaCppAnswer": schema.one_of(
        schema.ref("LlamaCppCompletion"), schema.array(schema.ref("LlamaCppCompletion"))
    ),
}


TGI_SCHEMAS: Final[dict[str, schema.Schema]] = {
    "TgiToken": schema.record(
        {
            "id": _COUNT,
            "text": schema.string(),
            "logprob": schema.number("0 where it is not known."),
            "special": schema.flag(),
        },
        required=("id", "text", "logprob", "special"),
    ),
    "TgiDetails": schema.record(
        {
            "finish_reason": schema.word(("length", "eos_token", "stop_sequence")),
            "generated_tokens": _COUNT,
            "input_length": schema.integer("In streams.", minimum=0),
            "seed": schema.nullable(schema.integer()),
            "prefill": schema.array({}, "Always empty."),
            "tokens": schema.array(schema.ref("TgiToken")),
            "top_tokens": schema.array(schema.array(schema.ref("TgiToken"))),
        },
        required=("finish_reason", "generated_tokens", "seed"),
    ),
    "TgiAnswer": schema.record(
        {"generated_text": schema.string(), "details": schema.ref("TgiDetails")},
        required=("generated_text",),
    ),
    "TgiAnswers": schema.array(schema.ref("TgiAnswer")),
    "TgiEvent": schema.record(
        {
            "index": schema.integer(minimum=1),
            "token": schema.ref("TgiToken"),
            "generated_text": schema.nullable(schema.string("In the last event.")),
            "details": schema.nullable(schema.ref("TgiDetails")),
            "top_tokens": schema.array(schema.ref("TgiToken")),
        },
        required=("index", "token", "generated_text", "details"),
    ),
}


_SGLANG: Final = {
    "text": schema.string("In events too the whole text so far."),
    "output_ids": schema.array(_COUNT),
    "meta_info": schema.ref("SglangMeta"),
}
GENERATE_SCHEMAS: Final[dict[str, schema.Schema]] = {
    **TGI_SCHEMAS,
    "SglangMeta": schema.record(
        {
            "id": schema.string(),
            "finish_reason": schema.nullable(
                schema.anything("`type` is `stop` (with `matched`), `length` or `abort`.")
            ),
            "prompt_tokens": _COUNT,
            "completion_tokens": _COUNT,
            "cached_tokens": schema.integer("0 where there are several answers.", minimum=0),
            "weight_version": schema.string(),
            "e2e_latency": schema.number("Seconds; at the end.", minimum=0),
            "input_token_logprobs": schema.array({}, "Always empty."),
            "output_token_logprobs": schema.array(
                schema.array({}, "Log-probability, token id, text or null."),
                "With `return_logprob`.",
            ),
        },
        required=("id", "finish_reason", "prompt_tokens", "completion_tokens"),
    ),
    "SglangAnswer": schema.record(_SGLANG, required=("text", "output_ids", "meta_info")),
    "TgiOrSglangAnswer": schema.one_of(
        schema.ref("TgiAnswer"),
        schema.ref("SglangAnswer"),
        schema.array(schema.ref("SglangAnswer"), "Of several prompts, or with `n`."),
    ),
    "TgiOrSglangEvent": schema.one_of(
        schema.ref("TgiEvent"),
        schema.record(
            {**_SGLANG, "index": schema.integer("Where there are several.", minimum=0)},
            required=("text", "output_ids", "meta_info"),
        ),
    ),
}


LOOKUP_SCHEMAS: Final[dict[str, schema.Schema]] = {
    "AppliedTemplate": schema.record({"prompt": schema.string()}, required=("prompt",)),
    "LlamaCppProps": schema.record(
        {
            "default_generation_settings": schema.anything("With `n_ctx`, the most tokens."),
            "total_slots": schema.integer("Requests that are generated at a time.", minimum=1),
            "model_alias": schema.string(),
            "model_path": schema.string("The model's name: paths are not shown."),
            "modalities": schema.record({"vision": schema.flag(), "audio": schema.flag()}),
            "chat_template": schema.string("With `--show_tokenizer`."),
            "bos_token": schema.string("With `--show_tokenizer`."),
            "eos_token": schema.string("With `--show_tokenizer`."),
            "build_info": schema.string(),
            "infill": schema.flag("The model completes code: `/infill` answers."),
        }
    ),
    "LlamaCppSlots": schema.array(
        schema.record(
            {
                "id": _COUNT,
                "n_ctx": _COUNT,
                "is_processing": schema.flag(),
                "speculative": schema.flag(),
            }
        ),
        "One for each running request, and one that is free if there is room.",
    ),
    "TokenizerInfo": schema.record(
        {
            "tokenizer_class": schema.string(),
            "chat_template": schema.string(),
            "bos_token": schema.string(),
            "eos_token": schema.string(),
            "vocab_size": _COUNT,
            "model_max_length": schema.nullable(_COUNT),
        }
    ),
    "ServerLoad": schema.record({"server_load": schema.integer("Unfinished requests.", minimum=0)}),
    "Health": schema.record({"status": schema.const("ok")}, required=("status",)),
    "SglangModelInfo": schema.record(
        {
            "model_path": schema.string("The model's name: paths are not shown."),
            "served_model_name": schema.string(),
            "tokenizer_path": schema.string("The model's name."),
            "is_generation": schema.const(True),
            "preferred_sampling_params": schema.const(None),
            "weight_version": schema.string(),
            "reasoning_parser": schema.nullable(schema.string()),
            "tool_call_parser": schema.nullable(schema.string()),
            "has_image_understanding": schema.flag(),
            "has_audio_understanding": schema.flag(),
            "model_type": schema.string(),
            "max_context_length": schema.nullable(_COUNT),
        }
    ),
    "TgiInfo": schema.record(
        {
            "model_id": schema.string(),
            "model_sha": schema.nullable(schema.string()),
            "model_dtype": schema.string(),
            "model_pipeline_tag": schema.string(),
            "max_concurrent_requests": _COUNT,
            "max_best_of": _COUNT,
            "max_stop_sequences": _COUNT,
            "max_input_tokens": schema.nullable(_COUNT),
            "max_total_tokens": schema.nullable(_COUNT),
            "max_client_batch_size": _COUNT,
            "router": schema.string(),
            "version": schema.string(),
        }
    ),
}


TOKEN_SCHEMAS: Final[dict[str, schema.Schema]] = {
    "TokensOfText": schema.one_of(
        schema.record(
            {
                "tokens": schema.array({}),
                "count": schema.integer(minimum=0),
                "max_model_len": schema.nullable(schema.integer()),
                "token_strs": schema.nullable(schema.array(schema.string())),
            },
            required=("tokens",),
        ),
        schema.array(
            schema.record(
                {
                    "id": schema.integer(),
                    "text": schema.string(),
                    "start": schema.integer(),
                    "stop": schema.integer(),
                },
                required=("id", "text", "start", "stop"),
            )
        ),
    ),
    "TextOfTokens": schema.record(
        {"prompt": schema.string("vLLM's name."), "content": schema.string("llama.cpp's.")},
        required=("prompt", "content"),
    ),
}
