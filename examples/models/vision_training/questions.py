"""Questions about pictures of shapes, and the right answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from .pictures import COLOURS, SHAPES, Picture

Asked = tuple[str, str]  # a question and its answer
NUMBERS = ("no", "one", "two", "three")
WHAT = (
    "What is in the picture?",
    "What is in the picture?",
    "What is in this picture?",
    "What is in the image?",
    "What is in this image?",
    "What's in this image?",
    "What do you see?",
    "What can you see in the picture?",
    "Describe the picture.",
    "Describe the image.",
    "Describe this image.",
    "What is this?",
    "What is shown here?",
    "What does the picture show?",
    "Name the shapes.",
    "Which shapes are in the picture?",
    "Which shape is in the picture?",
    "What shape is this?",
    "What shape and colour is it?",
    "Tell me what you see.",
    "What is on the image?",
)
WHAT_OF_ONE = (
    "What is in the {} picture?",
    "What is in the {} image?",
    "What do you see in the {} picture?",
    "Describe the {} picture.",
    "What does the {} picture show?",
    "What is the {} one?",
)
DIFFERS = (
    "What differs?",
    "What differs?",
    "What is the difference?",
    "How do the pictures differ?",
    "What is different?",
    "Compare the pictures.",
    "Compare the two images.",
    "What is in the pictures?",
    "What is in the two pictures?",
    "Describe both pictures.",
    "What is in these images?",
    "What is in the images?",
    "What do you see?",
)


def content(picture: Picture) -> str:
    """Return the contents, such as ``a red circle and a blue square``."""
    if not picture.shapes:
        return f"nothing but {picture.background}"
    names = [f"{_article(shape.name)} {shape.name}" for shape in picture.shapes]
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def what(rng: random.Random, picture: Picture) -> Asked:
    return rng.choice(WHAT), sentence(content(picture))


def colour(rng: random.Random, picture: Picture) -> Asked:
    kind = _some_kind(rng, picture)
    ask = rng.choice(("What colour is the {}?", "What colour is the {}?", "What color is the {}?"))
    ask = rng.choice((ask, ask, "Which colour does the {} have?", "What is the colour of the {}?"))
    found = [shape.colour for shape in picture.shapes if shape.kind == kind]
    if not found:
        return ask.format(kind), f"There is no {kind}."
    if len(found) == 1:
        return ask.format(kind), f"The {kind} is {found[0]}."
    return ask.format(kind), f"There are {NUMBERS[len(found)]} {kind}s."


def which(rng: random.Random, picture: Picture) -> Asked:
    colour = rng.choice([*(shape.colour for shape in picture.shapes), rng.choice(list(COLOURS))])
    ask = rng.choice(("Which shape is {}?", "Which shape is {}?", "What is {}?", "Which is {}?"))
    found = [f"the {shape.kind}" for shape in picture.shapes if shape.colour == colour]
    return ask.format(colour), sentence(" and ".join(found) or "none of them")


def how_many(rng: random.Random, picture: Picture) -> Asked:
    forms = ("How many shapes are there?", "How many shapes do you see?", "Count the shapes.")
    ask = rng.choice((*forms, "How many shapes are in the picture?"))
    number = len(picture.shapes)
    verb, end = ("is", "") if number == 1 else ("are", "s")
    return ask, f"There {verb} {NUMBERS[number]} shape{end}."


def is_there(rng: random.Random, picture: Picture) -> Asked:
    kind, colour = _some_kind(rng, picture), rng.choice(list(COLOURS))
    colours = [shape.colour for shape in picture.shapes if shape.kind == kind]
    if colours and rng.random() < 0.6:
        colour = rng.choice(colours)
    if rng.random() < 0.4:
        return f"Is there a {kind}?", "Yes." if colours else "No."
    ask = rng.choice(("Is there {} {} {}?", "Do you see {} {} {}?"))
    return ask.format(_article(colour), colour, kind), "Yes." if colour in colours else "No."


def background(rng: random.Random, picture: Picture) -> Asked:
    ask = rng.choice(("What colour is the background?", "What color is the background?"))
    return ask, f"The background is {picture.background}."


ABOUT_ONE: tuple[Callable[[random.Random, Picture], Asked], ...]
ABOUT_ONE = (what, what, what, colour, colour, which, how_many, is_there, background)


def about_two(rng: random.Random, pictures: Sequence[Picture]) -> Asked:
    """Return a question about two pictures at once, or about one of them."""
    draw = rng.random()
    number = rng.randrange(2)
    ordinal = ("first", "second")[number]
    if draw < 0.45:
        first, second = (content(picture) for picture in pictures)
        if first == second:
            return rng.choice(DIFFERS), f"Both pictures show {first}."
        return rng.choice(DIFFERS), f"The first shows {first}, the second {second}."
    if draw < 0.8:
        return rng.choice(WHAT_OF_ONE).format(ordinal), sentence(content(pictures[number]))
    kind = _some_kind(rng, pictures[number])
    having = [kind in [shape.kind for shape in picture.shapes] for picture in pictures]
    answers = {(True, True): "Both.", (True, False): "The first.", (False, True): "The second."}
    return f"Which picture shows a {kind}?", answers.get((having[0], having[1]), "None of them.")


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _some_kind(rng: random.Random, picture: Picture) -> str:
    """Return a kind of shape, mostly one that is in the picture."""
    return rng.choice([*(shape.kind for shape in picture.shapes), rng.choice(SHAPES)])


def _article(name: str) -> str:
    return "an" if name[0] in "aeiou" else "a"
