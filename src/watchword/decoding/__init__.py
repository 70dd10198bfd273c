"""Decoding over the `step` of any model. It depends on no model and no vocabulary."""

from watchword.decoding.search import (
    Hypotheses,
    StepModel,
    TeacherForced,
    UnrolledModel,
    arithmetic_sample,
    beam,
    expand_state,
    greedy,
    mbr_decode,
    ngram_similarity,
    rescore,
    sample,
    stack_attention,
    teacher_force,
    without_end,
)
from watchword.decoding.step_models import Ensemble, RepetitionFilter, networks

__all__ = [
    "Ensemble",
    "Hypotheses",
    "RepetitionFilter",
    "StepModel",
    "TeacherForced",
    "UnrolledModel",
    "arithmetic_sample",
    "beam",
    "expand_state",
    "greedy",
    "mbr_decode",
    "networks",
    "ngram_similarity",
    "rescore",
    "sample",
    "stack_attention",
    "teacher_force",
    "without_end",
]
