"""Analyses of captions and runs."""
