"""Victims of preemptions: who may be one, and which ones cost least."""
