"""Speech to text: `S2tCalculator`, the processes of its model, requests and answers.

Other packages use only `calculators.speech.speech_to_text.task`.
"""
