"""Makes the model in ``examples/models/counter``: a Whisper that counts to ten, whatever it hears.

    python -m examples.models.counter_making

Nothing is trained. The position of a token decides what the next one is, so the text of every sound
is known: tests compare answers with it. It needs the extra ``train`` and takes a minute.
"""
