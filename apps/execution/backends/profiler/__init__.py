"""Profiles real programs on this machine: stressors, windows and readings of the kernel."""
