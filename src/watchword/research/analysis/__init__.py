"""Analyses of captions and runs, one a file."""
