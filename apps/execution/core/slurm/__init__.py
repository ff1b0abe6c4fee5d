"""Slurm's answers as values, and what follows from them: no process, clock or database."""
