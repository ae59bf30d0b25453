"""Evaluators of what a model sees, with its weights as they are and without its head."""
