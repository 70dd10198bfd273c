"""Tables of scores, as papers print them: times 100, one decimal; CIDEr too."""

from collections.abc import Mapping

from rich.table import Table

COLUMNS = {
    "Bleu_1": "BLEU-1", "Bleu_2": "BLEU-2", "Bleu_3": "BLEU-3", "Bleu_4": "BLEU-4",
    "METEOR": "METEOR", "ROUGE_L": "ROUGE-L", "CIDEr": "CIDEr",
}  # fmt: skip


def score_table(rows: Mapping[str, Mapping[str, float]], title: str) -> Table:
    """One line a row of scores; a score that is not there is a dash."""
    table = Table(title=f"{title} (x100)", title_justify="left")
    table.add_column("")
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right")
    for name, scores in rows.items():
        table.add_row(name, *(f"{100 * scores[key]:.1f}" if key in scores else "-" for key in COLUMNS))
    return table
