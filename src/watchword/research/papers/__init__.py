"""Figures and probes of each paper: X.py is the command, X_figure.py the drawing."""
