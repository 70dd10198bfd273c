"""From a video to captions: bundles on disk, captioners in memory, the pipeline, and the files it writes."""
