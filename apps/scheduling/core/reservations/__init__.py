"""Units reserved for gangs, and backfill around them."""
