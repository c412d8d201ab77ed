"""Trains the built-in voice: Debian's free texts and synthesisers to a checkpoint of the real architecture.

See README.md.
"""

import os

# stages run side by side, and numpy's threads waiting for each other would take a core from the next one
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
