"""Speech to text: `S2tCalculator`, the processes of its model, requests and answers.

`calculators.speech_to_text.task` is what the rest of the house knows of it.
"""
