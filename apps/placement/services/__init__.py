"""Writes of placement."""
