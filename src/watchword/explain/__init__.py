"""Attention of a captioner as data, figures, videos and pages. No model, no torch."""
