"""METEOR 1.5 as coco-caption runs it: exact, stem, synonym and paraphrase matches, without Java.

Without its tables there is no METEOR: `available` says whether they are here, everything else raises one clear line.
"""

from watchword.metrics.meteor.index import MeteorIndex
from watchword.metrics.meteor.tables import PACKAGED_FILES, available, load_tables, table_hash

__all__ = ["PACKAGED_FILES", "MeteorIndex", "available", "load_tables", "table_hash"]
