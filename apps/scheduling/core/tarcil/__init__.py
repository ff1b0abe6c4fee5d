"""Tarcil's encoding, guarantee and sample size (T1-T4), and its compiled decisions."""
