"""Watchword watches a video and finds the words for it."""

__version__ = "0.1.0"
