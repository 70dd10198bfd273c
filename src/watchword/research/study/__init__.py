"""A blind comparison of two systems by people."""
