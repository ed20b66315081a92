"""Classes of texts: `TextClassificationCalculatorOV`, moderations, requests and answers.

`calculators.text_classification.task` is what the rest of the house knows of it.
"""
