"""Text to speech: `T2sCalculator`, `TextToSpeechCalculator`, and the process of their model.

`calculators.text_to_speech.task` is what the rest of the house knows of it.
"""
