"""`watchword research`: figures and analyses of the papers, drawn data, studies with people."""

from collections.abc import Callable

import typer

from watchword.research.analysis.drawn_videos import grounding, temporal_order
from watchword.research.analysis.experiments import perplexity, sweep
from watchword.research.analysis.spliced_videos import splice
from watchword.research.analysis.tuple_f1 import tuple_f1
from watchword.research.analysis.word_stats import pos_stats, vocab_stats, word_frequency
from watchword.research.drawn_data import demo, shapes
from watchword.research.papers.dual_afr import layers
from watchword.research.papers.global2local import attention_ablation
from watchword.research.papers.hierarchical import regions
from watchword.research.papers.refocus import refocus
from watchword.research.papers.refocus_key_frames import key_frames
from watchword.research.papers.side_by_side import side_by_side
from watchword.research.papers.stats import branches, heatmap
from watchword.research.study import study

research = typer.Typer(
    name="research", help="Figures and analyses of the papers; drawn data; studies.", no_args_is_help=True
)

COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Drawn data": (demo, shapes, splice),
    "Experiments": (sweep, perplexity),
    "Words of captions": (word_frequency, vocab_stats, pos_stats, tuple_f1),
    "Attention and time": (grounding, temporal_order, branches, key_frames, attention_ablation),
    "Figures of the papers": (regions, heatmap, refocus, layers, side_by_side),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        research.command(rich_help_panel=panel)(command)
research.add_typer(study, rich_help_panel="Experiments")
