"""Sentences to words, words to numbers."""
