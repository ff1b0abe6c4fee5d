"""Decisions as they are stored, explained, repeated and compared."""
