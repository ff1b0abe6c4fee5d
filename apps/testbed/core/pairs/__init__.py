"""Predicted and measured co-location of two applications."""
