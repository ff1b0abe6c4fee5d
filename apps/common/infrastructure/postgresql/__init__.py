"""Django's backend of PostgreSQL with a cheaper health check; Django loads ``base``."""
