"""`examples/models/shapes_vlm`: the small vision model names what pictures show."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import openvino_genai as genai
import pytest
from PIL import Image as Pillow

from calculators.images.media.image import Image
from calculators.llm.engine.genai_pipeline import GenaiPipeline
from calculators.llm.engine.messages import Add
from calculators.llm.engine.settings import EngineSettings, GenerationSettings
from calculators.llm.engine.stateful_pipeline import StatefulVisionModel
from examples.models.training.conversation import Conversation, prompt_text
from examples.models.vision_training.conversations import IMAGE, NO_PICTURE
from examples.models.vision_training.example_pictures import EXAMPLES
from examples.models.vision_training.pictures import Pixels, Shape, draw
from examples.models.vision_training.questions import content, sentence
from examples.models.vision_training.scorecard import usual_picture
from tests.support.checkout import ROOT

MODEL = ROOT / "examples" / "models" / "shapes_vlm"
SETTINGS = EngineSettings(model_path=str(MODEL), device="CPU", pipeline_type="VLM_CB")
GREEDY = GenerationSettings(max_new_tokens=40)


NEEDED = (
    "config.json",
    "generation_config.json",
    "graph.pbtxt",
    "openvino_detokenizer.xml",
    "openvino_language_model.xml",
    "openvino_text_embeddings_model.xml",
    "openvino_tokenizer.xml",
    "openvino_vision_embeddings_merger_model.xml",
    "openvino_vision_embeddings_model.xml",
    "preprocessor_config.json",
)
WHAT = "What is in the picture?"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return genai.Tokenizer(str(MODEL))


@pytest.fixture(scope="module")
def pipeline() -> GenaiPipeline:
    return GenaiPipeline(SETTINGS)


def request(number: int, question: str, *seen: Pixels) -> Add:
    """Return a request in the calculator's form: the prompt's text with tags, and the pixels."""
    tags = "".join(f"{IMAGE.format(place)}\n" for place in range(len(seen)))
    text = prompt_text(Conversation([{"role": "user", "content": tags + question}], ""))
    images = tuple(Image(each.shape[0], each.shape[1], each.tobytes()) for each in seen)
    return Add(number, b"", GREEDY, text=text, images=images)


def ask(
    pipeline: GenaiPipeline, tokenizer: Any, *questions: tuple[str, *tuple[Pixels, ...]]
) -> list[str]:
    """Return the answers, all generated together."""
    ids: dict[int, list[int]] = {}
    for number, (question, *seen) in enumerate(questions):
        ids[number] = []
        pipeline.add(request(number, question, *seen))
    while pipeline.has_work:
        for tokens in pipeline.step():
            ids[tokens.request_id] += tokens.token_ids
    return [str(tokenizer.decode(each)) for each in ids.values()]


def one_shape(colour: str, kind: str) -> Pixels:
    background = "black" if colour == "white" else "white"
    return draw((Shape(colour, kind, 0.5, 0.5, 0.6),), background, 128, 128)


def test_the_folder_is_small_and_has_what_an_engine_needs() -> None:
    files = {path.name: path.stat().st_size for path in MODEL.iterdir() if path.is_file()}
    assert files.keys() >= {*NEEDED, "README.md"}
    assert sum(files.values()) < 6_000_000


def test_the_model_names_shapes_and_colours_of_new_pictures(
    pipeline: GenaiPipeline, tokenizer: Any
) -> None:
    rng = random.Random("test")
    pictures = [usual_picture(rng, 1) for _ in range(40)]
    said = ask(pipeline, tokenizer, *((WHAT, each.pixels) for each in pictures))
    right = [a == sentence(content(b)) for a, b in zip(said, pictures, strict=True)]
    assert sum(right) >= 36


def test_the_model_names_the_example_pictures(pipeline: GenaiPipeline, tokenizer: Any) -> None:
    decoded = []
    for name, background, (width, height), shapes in EXAMPLES:
        file = MODEL / "pictures" / f"{name}.png"
        assert file.stat().st_size < 5000
        with Pillow.open(file) as image:
            decoded.append(np.asarray(image.convert("RGB")))
        assert (decoded[-1] == draw(shapes, background, width, height)).all()
    said = ask(pipeline, tokenizer, *((WHAT, each) for each in decoded))
    assert said == [
        "A red circle.",
        "A blue square.",
        "A green triangle.",
        "A yellow circle and a purple square.",
    ]


def test_the_model_tells_two_images_apart(pipeline: GenaiPipeline, tokenizer: Any) -> None:
    first, second = one_shape("red", "circle"), one_shape("blue", "square")
    assert ask(
        pipeline,
        tokenizer,
        ("What differs?", first, second),
        ("What differs?", second, first),
        ("What is in the second picture?", first, second),
    ) == [
        "The first shows a red circle, the second a blue square.",
        "The first shows a blue square, the second a red circle.",
        "A blue square.",
    ]


def test_the_model_says_that_there_is_no_image(pipeline: GenaiPipeline, tokenizer: Any) -> None:
    assert ask(pipeline, tokenizer, (WHAT,), ("Hello",)) == [
        NO_PICTURE,
        "Hello! Show me a picture of coloured shapes.",
    ]


def test_the_model_answers_the_same_one_request_at_a_time(
    pipeline: GenaiPipeline, tokenizer: Any
) -> None:
    model = StatefulVisionModel(SETTINGS)
    for seen in (one_shape("red", "circle"), one_shape("green", "triangle")):
        told: list[int] = []

        def take(ids: list[int], speech: bytes = b"", told: list[int] = told) -> bool:
            told.extend(ids)
            return True

        model.generate(request(0, WHAT, seen), take)
        assert tokenizer.decode(told) == ask(pipeline, tokenizer, (WHAT, seen))[0]
