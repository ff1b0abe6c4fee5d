"""Folders of public measurements."""
