"""Operations of files and batches."""

from __future__ import annotations

from functools import partial
from typing import Final

from calculators.kit.requests.members import OTHERS_ARE_REFUSED, body_schema
from calculators.kit.requests.schema import (
    Schema,
    anything,
    array,
    const,
    flag,
    integer,
    nullable,
    record,
    ref,
    string,
    word,
)
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
_TIME: Final = nullable(integer("Unix time in seconds."))
_ID: Final = nullable(string())
_COUNT: Final = integer(minimum=0)
_COUNTS: Final = ("processing", "succeeded", "errored", "canceled", "expired")


def _list_of(name: str) -> Schema:
    return record(
        {
            "object": const("list"),
            "data": array(ref(name)),
            "first_id": _ID,
            "last_id": _ID,
            "has_more": flag(),
        },
        required=("object", "data", "first_id", "last_id", "has_more"),
    )


BATCH_SCHEMAS: Final[dict[str, Schema]] = {
    "File": record(
        {
            "id": string(),
            "object": const("file"),
            "bytes": _COUNT,
            "created_at": integer("Unix time in seconds."),
            "filename": string(),
            "purpose": word((INPUT_PURPOSE, *DOCUMENT_PURPOSES, OUTPUT_PURPOSE)),
            "status": const("processed"),
            "status_details": nullable(string()),
            "expires_at": _TIME,
        },
        required=("id", "object", "bytes", "created_at", "filename", "purpose", "status"),
    ),
    "FileList": _list_of("File"),
    "FileDeleted": record(
        {"id": string(), "object": const("file"), "deleted": const(True)},
        required=("id", "object", "deleted"),
    ),
    "FileUpload": record(
        {
            "file": string("The requests, one per line.", format="binary", minLength=1),
            "purpose": word((INPUT_PURPOSE, *DOCUMENT_PURPOSES)),
            "expires_after[anchor]": const(ANCHOR),
            "expires_after[seconds]": integer(
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
    "BatchRequest": record(
        {name: member.schema() for name, member in BATCH_MEMBERS.items()},
        OTHERS_ARE_REFUSED,
        required=tuple(name for name, each in BATCH_MEMBERS.items() if each.is_required),
        additionalProperties=False,
    ),
    "Batch": record(
        {
            "id": string(),
            "object": const("batch"),
            "endpoint": string(),
            "model": nullable(string("The model of the first request.")),
            "errors": nullable(
                record(
                    {
                        "object": const("list"),
                        "data": array(
                            record(
                                {
                                    "code": string(),
                                    "line": nullable(integer("From 1.")),
                                    "message": string(),
                                    "param": nullable(string()),
                                },
                                required=("code", "line", "message", "param"),
                            )
                        ),
                    },
                    "Why the batch failed.",
                    required=("object", "data"),
                )
            ),
            "input_file_id": string(),
            "completion_window": const(WINDOW),
            "status": word([each.value for each in Status]),
            "output_file_id": _ID,
            "error_file_id": _ID,
            "created_at": integer("Unix time in seconds."),
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
            "request_counts": record(
                {"total": _COUNT, "completed": _COUNT, "failed": _COUNT},
                required=("total", "completed", "failed"),
            ),
            "usage": record(
                {
                    "input_tokens": _COUNT,
                    "input_tokens_details": record({"cached_tokens": _COUNT}),
                    "output_tokens": _COUNT,
                    "output_tokens_details": record({"reasoning_tokens": _COUNT}),
                    "total_tokens": _COUNT,
                },
                required=("input_tokens", "output_tokens", "total_tokens"),
            ),
            "metadata": nullable(METADATA_SCHEMA),
        },
        required=("id", "object", "endpoint", "input_file_id", "completion_window", "status"),
    ),
    "BatchList": _list_of("Batch"),
    "MessageBatchCreation": body_schema(CREATE_MEMBERS),
    "MessageBatchItem": record(
        {
            "custom_id": string("Of its own in the batch.", minLength=1, maxLength=256),
            "params": anything("A request to `/messages`, without a stream."),
        },
        required=("custom_id", "params"),
    ),
    "MessageBatch": record(
        {
            "id": string(),
            "type": const("message_batch"),
            "processing_status": word(("in_progress", "canceling", "ended")),
            "request_counts": record(
                dict.fromkeys(_COUNTS, _COUNT),
                "All are processing until then.",
                required=_COUNTS,
            ),
            "created_at": string(),
            "expires_at": string(),
            "ended_at": _ID,
            "cancel_initiated_at": _ID,
            "archived_at": _ID,
            "results_url": _ID,
        },
        required=("id", "type", "processing_status", "request_counts", "created_at", "expires_at"),
    ),
    "MessageBatchList": record(
        {
            "data": array(ref("MessageBatch")),
            "has_more": flag(),
            "first_id": _ID,
            "last_id": _ID,
        },
        required=("data", "has_more", "first_id", "last_id"),
    ),
    "MessageBatchDeleted": record(
        {"id": string(), "type": const("message_batch_deleted")}, required=("id", "type")
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
            body={FORM: media(ref("FileUpload"))},
            answers={200: answer("The file.", {JSON: media(ref("File"))})},
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
            answers={200: answer("A page of files.", {JSON: media(ref("FileList"))})},
        ),
        Operation(
            method="get",
            paths=prefixed("/files/{file_id}"),
            id="retrieveFile",
            tag=_TAG,
            summary="Describe a file",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            answers={200: answer("The file.", {JSON: media(ref("File"))})},
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
            answers={200: answer("It is deleted.", {JSON: media(ref("FileDeleted"))})},
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
    a_batch = {JSON: media(ref("Batch"))}
    return [
        Operation(
            method="post",
            paths=prefixed("/batches"),
            id="createBatch",
            tag=_TAG,
            summary="Answer the requests of a file",
            form=ErrorForm.OPENAI,
            errors=frozenset({408, 413, 415, 507}),
            body={JSON: media(ref("BatchRequest"))},
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
            answers={200: answer("A page of batches.", {JSON: media(ref("BatchList"))})},
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
    a_batch = {JSON: media(ref("MessageBatch"))}
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
            body={JSON: media(ref("MessageBatchCreation"), one={"requests": [example]})},
            answers={200: answer("The batch.", a_batch)},
        ),
        _operation(
            method="get",
            paths=prefixed(path),
            id="listMessageBatches",
            summary="List the client's batches of messages, the newest first",
            errors=frozenset({404}),
            parameters=("AfterId", "BeforeId", "MessageBatchLimit"),
            answers={200: answer("A page of batches.", {JSON: media(ref("MessageBatchList"))})},
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
            answers={200: answer("It is deleted.", {JSON: media(ref("MessageBatchDeleted"))})},
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
