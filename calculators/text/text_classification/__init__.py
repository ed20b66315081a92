"""Classes of texts: `TextClassificationCalculatorOV`, moderations, requests and answers.

Other packages use only `calculators.text.text_classification.task`.
"""
