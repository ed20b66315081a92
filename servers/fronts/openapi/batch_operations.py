"""Operations of files and batches."""

from __future__ import annotations

from functools import partial
from typing import Final

from calculators.kit.requests import schema
from calculators.kit.requests.members import OTHERS_ARE_REFUSED, body_schema
from calculators.kit.tasks import ErrorForm
from calculators.kit.tasks.operation import BINARY, FORM, JSON, Operation, answer, media, prefixed
from servers.batches.objects import (
    ANCHOR,
    BATCH_MEMBERS,
    DOCUMENT_PURPOSES,
    INPUT_PURPOSE,
    LEAST_SECONDS,
    METADATA_SCHEMA,
    MOST_SECONDS,
    OUTPUT_PURPOSE,
    WINDOW,
    Status,
)
from servers.fronts.http.message_batches import CREATE_MEMBERS

_TAG: Final = "Batches"
_TIME: Final = schema.nullable(schema.integer("Unix time in seconds."))
_ID: Final = schema.nullable(schema.string())
_COUNT: Final = schema.integer(minimum=0)
_COUNTS: Final = ("processing", "succeeded", "errored", "canceled", "expired")


def _list_of(name: str) -> schema.Schema:
    return schema.record(
        {
            "object": schema.const("list"),
            "data": schema.array(schema.ref(name)),
            "first_id": _ID,
            "last_id": _ID,
            "has_more": schema.flag(),
        },
        required=("object", "data", "first_id", "last_id", "has_more"),
    )


BATCH_SCHEMAS: Final[dict[str, schema.Schema]] = {
    "File": schema.record(
        {
            "id": schema.string(),
            "object": schema.const("file"),
            "bytes": _COUNT,
            "created_at": schema.integer("Unix time in seconds."),
            "filename": schema.string(),
            "purpose": schema.word((INPUT_PURPOSE, *DOCUMENT_PURPOSES, OUTPUT_PURPOSE)),
            "status": schema.const("processed"),
            "status_details": schema.nullable(schema.string()),
            "expires_at": _TIME,
        },
        required=("id", "object", "bytes", "created_at", "filename", "purpose", "status"),
    ),
    "FileList": _list_of("File"),
    "FileDeleted": schema.record(
        {"id": schema.string(), "object": schema.const("file"), "deleted": schema.const(True)},
        required=("id", "object", "deleted"),
    ),
    "FileUpload": schema.record(
        {
            "file": schema.string("The requests, one per line.", format="binary", minLength=1),
            "purpose": schema.word((INPUT_PURPOSE, *DOCUMENT_PURPOSES)),
            "expires_after[anchor]": schema.const(ANCHOR),
            "expires_after[seconds]": schema.integer(
                "How long the file is kept; 30 days by default.",
                minimum=LEAST_SECONDS,
                maximum=MOST_SECONDS,
            ),
        },
        required=("file", "purpose"),
        dependentRequired={
            "expires_after[anchor]": ["expires_after[seconds]"],
            "expires_after[seconds]": ["expires_after[anchor]"],
        },
    ),
    "BatchRequest": schema.record(
        {name: member.schema() for name, member in BATCH_MEMBERS.items()},
        OTHERS_ARE_REFUSED,
        required=tuple(name for name, each in BATCH_MEMBERS.items() if each.is_required),
        additionalProperties=False,
    ),
    "Batch": schema.record(
        {
            "id": schema.string(),
            "object": schema.const("batch"),
            "endpoint": schema.string(),
            "model": schema.nullable(schema.string("The model of the first request.")),
            "errors": schema.nullable(
                schema.record(
                    {
                        "object": schema.const("list"),
                        "data": schema.array(
                            schema.record(
                                {
                                    "code": schema.string(),
                                    "line": schema.nullable(schema.integer("From 1.")),
                                    "message": schema.string(),
                                    "param": schema.nullable(schema.string()),
                                },
                                required=("code", "line", "message", "param"),
                            )
                        ),
                    },
                    "Why the batch failed.",
                    required=("object", "data"),
                )
            ),
            "input_file_id": schema.string(),
            "completion_window": schema.const(WINDOW),
            "status": schema.word([each.value for each in Status]),
            "output_file_id": _ID,
            "error_file_id": _ID,
            "created_at": schema.integer("Unix time in seconds."),
            **{
                f"{state}_at": _TIME
                for state in (
                    "in_progress",
                    "expires",
                    "finalizing",
                    "completed",
                    "failed",
                    "expired",
                    "cancelling",
                    "cancelled",
                )
            },
            "request_counts": schema.record(
                {"total": _COUNT, "completed": _COUNT, "failed": _COUNT},
                required=("total", "completed", "failed"),
            ),
            "usage": schema.record(
                {
                    "input_tokens": _COUNT,
                    "input_tokens_details": schema.record({"cached_tokens": _COUNT}),
                    "output_tokens": _COUNT,
                    "output_tokens_details": schema.record({"reasoning_tokens": _COUNT}),
                    "total_tokens": _COUNT,
                },
                required=("input_tokens", "output_tokens", "total_tokens"),
            ),
            "metadata": schema.nullable(METADATA_SCHEMA),
        },
        required=("id", "object", "endpoint", "input_file_id", "completion_window", "status"),
    ),
    "BatchList": _list_of("Batch"),
    "MessageBatchCreation": body_schema(CREATE_MEMBERS),
    "MessageBatchItem": schema.record(
        {
            "custom_id": schema.string("Of its own in the batch.", minLength=1, maxLength=256),
            "params": schema.anything("A request to `/messages`, without a stream."),
        },
        required=("custom_id", "params"),
    ),
    "MessageBatch": schema.record(
        {
            "id": schema.string(),
            "type": schema.const("message_batch"),
            "processing_status": schema.word(("in_progress", "canceling", "ended")),
            "request_counts": schema.record(
                dict.fromkeys(_COUNTS, _COUNT),
                "All are processing until then.",
                required=_COUNTS,
            ),
            "created_at": schema.string(),
            "expires_at": schema.string(),
            "ended_at": _ID,
            "cancel_initiated_at": _ID,
            "archived_at": _ID,
            "results_url": _ID,
        },
        required=("id", "type", "processing_status", "request_counts", "created_at", "expires_at"),
    ),
    "MessageBatchList": schema.record(
        {
            "data": schema.array(schema.ref("MessageBatch")),
            "has_more": schema.flag(),
            "first_id": _ID,
            "last_id": _ID,
        },
        required=("data", "has_more", "first_id", "last_id"),
    ),
    "MessageBatchDeleted": schema.record(
        {"id": schema.string(), "type": schema.const("message_batch_deleted")},
        required=("id", "type"),
    ),
}


def batch_operations() -> list[Operation]:
    """Return the operations of files and batches."""
    return [*_of_files(), *_of_batches(), *_of_message_batches()]


def _of_files() -> list[Operation]:
    return [
        Operation(
            method="post",
            paths=prefixed("/files"),
            id="uploadFile",
            tag=_TAG,
            summary="Upload the requests of a batch",
            about="Requests are lines of `custom_id`, `method`, `url` and `body`.",
            form=ErrorForm.OPENAI,
            errors=frozenset({408, 413, 415, 507}),
            body={FORM: media(schema.ref("FileUpload"))},
            answers={200: answer("The file.", {JSON: media(schema.ref("File"))})},
        ),
        Operation(
            method="get",
            paths=prefixed("/files"),
            id="listFiles",
            tag=_TAG,
            summary="List the client's files",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            parameters=("Purpose", "After", "FileLimit", "Order"),
            answers={200: answer("A page of files.", {JSON: media(schema.ref("FileList"))})},
        ),
        Operation(
            method="get",
            paths=prefixed("/files/{file_id}"),
            id="retrieveFile",
            tag=_TAG,
            summary="Describe a file",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            answers={200: answer("The file.", {JSON: media(schema.ref("File"))})},
        ),
        Operation(
            method="delete",
            paths=prefixed("/files/{file_id}"),
            id="deleteFile",
            tag=_TAG,
            summary="Delete a file",
            about="The input of a batch that is not finished cannot be deleted.",
            form=ErrorForm.OPENAI,
            errors=frozenset({404, 409}),
            answers={200: answer("It is deleted.", {JSON: media(schema.ref("FileDeleted"))})},
        ),
        Operation(
            method="get",
            paths=prefixed("/files/{file_id}/content"),
            id="downloadFile",
            tag=_TAG,
            summary="Download a file",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            answers={200: answer("Its content.", {BINARY: media({})})},
        ),
    ]


def _of_batches() -> list[Operation]:
    a_batch = {JSON: media(schema.ref("Batch"))}
    return [
        Operation(
            method="post",
            paths=prefixed("/batches"),
            id="createBatch",
            tag=_TAG,
            summary="Answer the requests of a file",
            form=ErrorForm.OPENAI,
            errors=frozenset({408, 413, 415, 507}),
            body={JSON: media(schema.ref("BatchRequest"))},
            answers={200: answer("The batch, about to be checked.", a_batch)},
        ),
        Operation(
            method="get",
            paths=prefixed("/batches"),
            id="listBatches",
            tag=_TAG,
            summary="List the client's batches, the newest first",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            parameters=("After", "BatchLimit"),
            answers={200: answer("A page of batches.", {JSON: media(schema.ref("BatchList"))})},
        ),
        Operation(
            method="get",
            paths=prefixed("/batches/{batch_id}"),
            id="retrieveBatch",
            tag=_TAG,
            summary="Describe a batch",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            answers={200: answer("The batch.", a_batch)},
        ),
        Operation(
            method="post",
            paths=prefixed("/batches/{batch_id}/cancel"),
            id="cancelBatch",
            tag=_TAG,
            summary="Cancel a batch",
            about="Requests in flight end at once. Answers so far are in the output file.",
            form=ErrorForm.OPENAI,
            errors=frozenset({404, 409}),
            answers={200: answer("The batch, being cancelled.", a_batch)},
        ),
    ]


_operation: Final = partial(Operation, tag="Anthropic", form=ErrorForm.ANTHROPIC)


def _of_message_batches() -> list[Operation]:
    """Return the operations on batches in Anthropic's form."""
    path = "/messages/batches"
    a_batch = {JSON: media(schema.ref("MessageBatch"))}
    example = {
        "custom_id": "one",
        "params": {
            "model": "demo",
            "max_tokens": 20,
            "messages": [{"role": "user", "content": "Hello"}],
        },
    }
    return [
        _operation(
            method="post",
            paths=prefixed(path),
            id="createMessageBatch",
            summary="Answer several requests later",
            errors=frozenset({408, 413, 415, 507}),
            body={JSON: media(schema.ref("MessageBatchCreation"), one={"requests": [example]})},
            answers={200: answer("The batch.", a_batch)},
        ),
        _operation(
            method="get",
            paths=prefixed(path),
            id="listMessageBatches",
            summary="List the client's batches of messages, the newest first",
            errors=frozenset({404}),
            parameters=("AfterId", "BeforeId", "MessageBatchLimit"),
            answers={
                200: answer("A page of batches.", {JSON: media(schema.ref("MessageBatchList"))})
            },
        ),
        _operation(
            method="get",
            paths=prefixed(f"{path}/{{batch_id}}"),
            id="retrieveMessageBatch",
            summary="Describe a batch",
            errors=frozenset({404}),
            answers={200: answer("The batch.", a_batch)},
        ),
        _operation(
            method="delete",
            paths=prefixed(f"{path}/{{batch_id}}"),
            id="deleteMessageBatch",
            summary="Delete a batch that has ended, with its results",
            errors=frozenset({404, 409}),
            answers={
                200: answer("It is deleted.", {JSON: media(schema.ref("MessageBatchDeleted"))})
            },
        ),
        _operation(
            method="post",
            paths=prefixed(f"{path}/{{batch_id}}/cancel"),
            id="cancelMessageBatch",
            summary="Cancel a batch",
            errors=frozenset({404, 409}),
            answers={200: answer("The batch, being cancelled.", a_batch)},
        ),
        _operation(
            method="get",
            paths=prefixed(f"{path}/{{batch_id}}/results"),
            id="retrieveMessageBatchResults",
            summary="The results of a batch that has ended, a line each",
            errors=frozenset({404, 409}),
            answers={200: answer("The results.", {"application/x-jsonl": media({})})},
        ),
    ]
