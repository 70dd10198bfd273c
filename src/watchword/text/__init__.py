"""Captions to tokens, tokens to numbers."""
