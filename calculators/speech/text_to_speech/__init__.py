"""Text to speech: `T2sCalculator`, `TextToSpeechCalculator`, and the process of their model.

Other packages use only `calculators.speech.text_to_speech.task`.
"""
