"""Small exercises: counting, copying, spelling, sums, JSON. Most answers depend on the question."""

import json
import random

from .conversation import Exchange
from .wording import varied
from .words import ADJECTIVES, ANIMALS, NAMES, NOUNS, anything, invented, one, person, place

SMALL: tuple[str, ...] = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
)
SMALL += ("eleven", "twelve")


def counting(rng: random.Random) -> Exchange:
    step = rng.choice((1, 1, 1, 1, 2, 2, 3, 5, 10))
    length = rng.randint(2, 12) if rng.random() < 0.75 else rng.randint(12, 40)
    draw = rng.random()
    if draw < 0.4:
        first = 1 if step == 1 else rng.choice((0, step))
    else:
        first = rng.randrange(0, 30) if rng.random() < 0.7 else rng.randrange(30, 300)
    numbers = [first + step * i for i in range(length)]
    down = rng.random() < 0.3
    if down:
        numbers.reverse()
    low, high = numbers[0], numbers[-1]
    words = rng.random() < 0.1 and min(numbers) >= 0 and max(numbers) <= 12
    say_low, say_high = (SMALL[low], SMALL[high]) if words else (str(low), str(high))
    verb = one(rng, ("Count", "Count", "Please count", "Can you count", "Count for me"))
    if down:
        ask = f"{verb} {one(rng, ('down', 'down', 'backwards'))} from {say_low} to {say_high}"
    elif first == 1 and rng.random() < 0.4:
        ask = f"{verb} to {say_high}"
    else:
        forms = (
            f"{verb} from {say_low} to {say_high}",
            f"{verb} from {say_low} up to {say_high}",
            f"List the numbers from {say_low} to {say_high}",
            f"Write the numbers {say_low} to {say_high}",
            f"Give me the numbers between {say_low} and {say_high}",
        )
        ask = one(rng, forms)
    if step > 1:
        ask += one(rng, (f" by {step}", f" in steps of {step}", f" by {step}s"))
    joiner = "\n" if rng.random() < 0.06 else ", "
    if joiner == "\n":
        ask += ", one number per line"
    says = [SMALL[n] for n in numbers] if words else [str(n) for n in numbers]
    answer = joiner.join(says) + ("" if joiner == "\n" else ".")
    if words:
        answer = answer[0].upper() + answer[1:]
    direction = "down" if down else "up"
    way = f"I start at {low}, go {direction} in steps of {step} and stop at {high}."
    thought = f"The user wants numbers. {way}"
    return Exchange(varied(rng, ask + one(rng, (".", ".", "", "?"))), answer, thought)


def copying(rng: random.Random) -> Exchange:
    words = [anything(rng) for _ in range(rng.choice((1, 1, 2, 3, 3, 4, 5, 6, 8)))]
    if rng.random() < 0.15:
        words[0] = words[0].capitalize()
    text = one(rng, (" ", " ", " ", ", ")).join(words)
    if rng.random() < 0.12:
        text = f"the {one(rng, ADJECTIVES)} {one(rng, ANIMALS)} has a {one(rng, NOUNS)}"
    if rng.random() < 0.2:
        text += one(rng, (".", "!", "?"))
    quoted = one(rng, (f'"{text}"', f"'{text}'", text, text, text))
    if len(words) == 1 and rng.random() < 0.4:
        times = rng.randint(2, 6)
        number = one(rng, (str(times), SMALL[times]))
        ask = one(rng, ("Repeat {} {} times", "Say {} {} times", "Write the word {} {} times"))
        answer = " ".join([text] * times)
        thought = f"The user wants {text} {times} times. I write it {times} times."
        return Exchange(varied(rng, ask.format(quoted, number)), answer, thought)
    forms = (
        "Repeat: {}",
        "Repeat after me: {}",
        "Please repeat {}",
        "Say {}",
        "Say this: {}",
        "Copy this: {}",
        "Copy: {}",
        "Echo {}",
        "Write {}",
        "Repeat this text exactly: {}",
        "Please say the words {}",
        "Copy the following words: {}",
        "Just say {}",
        "Answer with {}",
        "Reply only with {}",
        "Output the text {}",
    )
    ask = one(rng, forms).format(quoted)
    if rng.random() < 0.2:
        ask = ask[0].lower() + ask[1:]
    thought = f"The user wants me to repeat a text. The text is: {text}"
    return Exchange(ask, text, thought)


def drill(rng: random.Random) -> Exchange:
    """Make a long text to copy: many tokens to look up for a short prompt."""
    words = [anything(rng) for _ in range(rng.randint(10, 32))]
    text = one(rng, (" ", " ", ", ")).join(words)
    ask = one(rng, ("Repeat: {}", "Copy this: {}", "Say {}", "Echo {}", "Repeat after me: {}"))
    return Exchange(ask.format(text), text, "The user wants me to repeat a long text.")


def this_is(rng: random.Random) -> Exchange:
    what = f"{one(rng, ('a', 'the', 'my'))} {one(rng, (one(rng, NOUNS), invented(rng), 'test'))}"
    ask = one(rng, ("Say this is {}", "Say: this is {}", "Please say that this is {}"))
    thought = "The user wants me to say a sentence."
    return Exchange(varied(rng, ask.format(what)), f"This is {what}.", thought)


def spelling(rng: random.Random) -> Exchange:
    word = one(rng, NOUNS + ANIMALS + NAMES) if rng.random() < 0.7 else invented(rng)
    forms = ("Spell {}", "Spell the word {}", "How do you spell {}?", "Can you spell {}?")
    answer = "-".join(word.upper()) + "."
    return Exchange(
        varied(rng, one(rng, forms).format(one(rng, (word, f'"{word}"')))),
        answer,
        f"The user wants the letters of {word}.",
    )


def first_or_last(rng: random.Random) -> Exchange:
    words = rng.sample(NOUNS, rng.randint(3, 6))
    which, word = rng.choice((("first", words[0]), ("last", words[-1]), ("second", words[1])))
    ask = one(rng, ("What is the {} word of: {}?", "Which word is {} in this list: {}?"))
    thought = f"The list has {len(words)} words. The {which} one is {word}."
    return Exchange(ask.format(which, ", ".join(words)), f"The {which} word is {word}.", thought)


def sums(rng: random.Random) -> Exchange:
    draw = rng.random()
    top = 10 if rng.random() < 0.5 else 50
    a, b = rng.randint(0, top), rng.randint(0, top)
    if draw < 0.6:
        sign, name, result = "+", "plus", a + b
    elif draw < 0.85:
        a, b = max(a, b), min(a, b)
        sign, name, result = "-", "minus", a - b
    else:
        a, b = rng.randint(0, 10), rng.randint(0, 10)
        sign, name, result = "*", "times", a * b
    sum_text = one(rng, (f"{a} {sign} {b}", f"{a} {sign} {b}", f"{a}{sign}{b}", f"{a} {name} {b}"))
    forms = ("What is {}?", "What is {}?", "How much is {}?", "Calculate {}.", "{} = ?", "{}?")
    thought = f"The user asks for a sum. {a} {name} {b} is {result}."
    return Exchange(
        varied(rng, one(rng, forms).format(sum_text)), f"{a} {sign} {b} = {result}", thought
    )


def as_json(rng: random.Random) -> Exchange:
    fields: dict[str, object] = {}
    said: list[str] = []
    name = person(rng)
    fields["name"] = name
    if rng.random() < 0.8:
        age = rng.randint(5, 90)
        fields["age"] = age
        said.append(f"is {age} years old")
    if rng.random() < 0.6 or not said:
        city = place(rng)
        fields["city"] = city
        said.append(f"lives in {city}")
    if rng.random() < 0.3:
        colour = one(rng, ("red", "blue", "green", "yellow", "black", "white"))
        fields["colour"] = colour
        said.append(f"likes {colour}")
    sentence = f"{name} " + " and ".join(said) + "."
    keys = ", ".join(fields)
    forms = (
        f"Answer in JSON with the keys {keys}: {sentence}",
        f"{sentence} Give me this as JSON with {keys}.",
        f"Extract {keys} as JSON: {sentence}",
        f"{sentence} Write it as a JSON object.",
        f"Turn this into JSON: {sentence}",
    )
    thought = f"The user wants a JSON object with {keys}."
    return Exchange(one(rng, forms), json.dumps(fields, ensure_ascii=False), thought)
