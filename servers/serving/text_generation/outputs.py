"""The outputs of a language model, by the names of Triton's backends."""

from __future__ import annotations

from typing import Final

from servers.contract.data_plane import TensorMetadata

TEXT_OUTPUT: Final = "text_output"
FINISH_REASON: Final = "finish_reason"
CUMULATIVE_LOGPROB: Final = "cumulative_logprob"
CUM_LOG_PROBS: Final = "cum_log_probs"
OUTPUT_LOG_PROBS: Final = "output_log_probs"
NUM_INPUT_TOKENS: Final = "num_input_tokens"
NUM_OUTPUT_TOKENS: Final = "num_output_tokens"

#: Outputs in the order of answers. The first dimension counts the answers to one text (``n``).
OUTPUTS: Final = (
    TensorMetadata(TEXT_OUTPUT, "BYTES", (-1,)),
    TensorMetadata(FINISH_REASON, "BYTES", (-1,)),
    TensorMetadata(CUMULATIVE_LOGPROB, "FP32", (-1,)),
    TensorMetadata(CUM_LOG_PROBS, "FP32", (-1,)),
    TensorMetadata(OUTPUT_LOG_PROBS, "FP32", (-1, -1)),
    TensorMetadata(NUM_INPUT_TOKENS, "UINT32", (1,)),
    TensorMetadata(NUM_OUTPUT_TOKENS, "UINT32", (-1,)),
)

OUTPUT_NAMES: Final = tuple(output.name for output in OUTPUTS)

#: The outputs that each flag requests; a client may name the outputs instead.
ASKED_BY: Final = {
    "return_finish_reason": (FINISH_REASON,),
    "return_cumulative_logprob": (CUMULATIVE_LOGPROB,),
    "return_log_probs": (CUM_LOG_PROBS, OUTPUT_LOG_PROBS),
    "return_num_input_tokens": (NUM_INPUT_TOKENS,),
    "return_num_output_tokens": (NUM_OUTPUT_TOKENS,),
}

#: Outputs that need the log-probabilities of tokens.
OF_LOGPROBS: Final = frozenset(
    {CUMULATIVE_LOGPROB, CUM_LOG_PROBS, OUTPUT_LOG_PROBS, NUM_OUTPUT_TOKENS}
)
