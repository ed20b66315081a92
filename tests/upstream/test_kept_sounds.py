"""openvino-genai 2026.4: a pipeline with paged attention keeps the sounds of a request.

It puts them before the prompt of the next request without sounds, of any client, until the chat is
ended. `calculators.llm.engine.stateful_pipeline` ends it between requests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino
import openvino_genai as genai
import pytest

from tests.calculators.llm.omni_model import make_omni_model

_PROMPT: Final = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory: Path = make_omni_model(tmp_path_factory.mktemp("omni"))
    scheduler = genai.SchedulerConfig()
    return genai.VLMPipeline(directory, "CPU", scheduler_config=scheduler)


def prompt_tokens(pipeline: Any, *sounds: Any) -> int:
    config = genai.GenerationConfig(max_new_tokens=1)
    config.apply_chat_template = False
    answer = pipeline.generate(_PROMPT, images=[], audios=list(sounds), generation_config=config)
    return int(answer.perf_metrics.get_num_input_tokens())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_sound_stays_until_the_chat_ends(pipeline: Any) -> None:
    alone = prompt_tokens(pipeline)
    with_sound = prompt_tokens(pipeline, openvino.Tensor(np.zeros(16_000, np.float32)))
    assert with_sound > alone
    assert prompt_tokens(pipeline) == with_sound
    pipeline.finish_chat()
    assert prompt_tokens(pipeline) == alone
