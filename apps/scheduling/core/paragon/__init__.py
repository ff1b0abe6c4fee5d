"""Paragon's server selection: both searches (P5, P6, P13), in plain and compiled form."""
