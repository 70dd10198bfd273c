"""The category of a clip, as its annotation has it, as a stream: one time step, one location, one-hot.

MSR-VTT files each clip under one of 20 categories (music, sports, cooking, ...), and systems are compared with and
without this input. As a stream of the store it is read, checked and named by runs as all features are.
"""

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.tensors import CATEGORY
from watchword.types import Clip, StreamArrays


def write_categories(clips: Sequence[Clip], store: Store) -> int:
    """Keeps the category of every clip; returns how many categories there are.

    A clip without one gets zeros: it is not known. The key of the stream holds the annotation's checksum, so a run
    notices when categories have changed.
    """
    known = {clip.video: clip.category for clip in clips if clip.category is not None}
    if not known:
        raise WatchwordError(f"none of the {len(clips):,} clips has a category: train without the stream {CATEGORY}")
    if min(known.values()) < 0:
        raise WatchwordError(f"category {min(known.values())}: categories are counted from 0")
    count = max(known.values()) + 1
    checksum = hashlib.sha256(json.dumps(sorted(known.items())).encode()).hexdigest()[:16]
    settings = {"made_of": "annotation", "categories": count, "annotation": checksum}
    for clip in clips:
        values = np.zeros((1, 1, count), np.float32)
        if clip.category is not None:
            values[0, 0, clip.category] = 1
        whole = np.array([[0, 0, 1, 1]], np.float32)
        store.write(clip.video, CATEGORY, StreamArrays(values, np.zeros(1, np.float32), whole), settings)
    return count
