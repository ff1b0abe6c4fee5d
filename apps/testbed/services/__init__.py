"""Writes of the testbed."""
