"""Fit of the `measured` world to public measurements, and how well it resembles them."""
