"""Trains the built-in voice: Debian's free texts and synthesisers to a checkpoint of the real architecture.

See README.md.
"""
