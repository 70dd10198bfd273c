"""From a film to sentences: a captioner, the eyes it was trained with, and what is made of the two for people."""
