"""Convert addresses in the environment to the formats of Django, redis-py and Celery."""

from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

POSTGRES_SCHEMES = frozenset({"postgresql", "postgres"})
SOCKET_SCHEMES = frozenset({"unix", "redis+socket"})
TCP_SCHEMES = frozenset({"redis", "rediss"})
# A transaction that is stuck after writing events holds back every reader of the log.
# Prepared statements are those whose plan does not depend on the parameters (`fetch_prepared`).
SESSION_OPTIONS = (
    "-c idle_in_transaction_session_timeout=2min -c plan_cache_mode=force_generic_plan"
)
ONLY_ON_REQUEST = 2**31 - 1  # executions after which psycopg prepares a statement by itself


def listed(text: str) -> list[str]:
    """Return the entries of a comma-separated list, without blanks and empty entries."""
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def database_from_url(url: str, *, conn_max_age_s: int) -> dict[str, Any]:
    """Return Django's database settings for `postgresql://user:password@host:port/name?option=value`.

    `?host=/directory` names a socket directory; other options are passed to libpq unchanged.
    Sessions that wait for their client inside a transaction end after two minutes, unless the
    address sets `options`.

    Raises
    ------
    ValueError : the scheme is not postgresql, the database name is missing, or the port is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in POSTGRES_SCHEMES:
        raise ValueError(f"DATABASE_URL must start with postgresql://, not {parts.scheme!r}")
    name = unquote(parts.path.removeprefix("/"))
    if not name:
        raise ValueError("DATABASE_URL must name a database")
    options = dict(parse_qsl(parts.query))
    host = options.pop("host", parts.hostname or "")
    port = options.pop("port", _port("DATABASE_URL", parts))
    return {
        "ENGINE": "apps.common.infrastructure.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": port,
        "CONN_MAX_AGE": conn_max_age_s,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "options": SESSION_OPTIONS,
            "prepare_threshold": ONLY_ON_REQUEST,
            **options,
        },
    }


def _port(name: str, parts: SplitResult) -> str:
    try:
        return str(parts.port or "")
    except ValueError as error:
        raise ValueError(f"the port of {name} must be 1 to 65535: {error}") from error


def client_url(url: str) -> str:
    """Return the address in redis-py's format: `redis://`, `rediss://` or `unix:///path?db=N`."""
    parts, options = _redis_parts(url)
    if parts.scheme in TCP_SCHEMES:
        return url
    return _socket_url("unix", parts, {"db": _database(options)})


def broker_url(url: str) -> str:
    """Return the address in Celery's format: `redis://`, `rediss://` or `redis+socket://`."""
    parts, options = _redis_parts(url)
    if parts.scheme in TCP_SCHEMES:
        return url
    return _socket_url("redis+socket", parts, {"virtual_host": _database(options)})


def _redis_parts(url: str) -> tuple[SplitResult, dict[str, str]]:
    parts = urlsplit(url)
    if parts.scheme not in SOCKET_SCHEMES | TCP_SCHEMES:
        raise ValueError(
            "REDIS_URL must start with redis://, rediss://, unix:// or redis+socket://, "
            f"not {parts.scheme!r}"
        )
    options = dict(parse_qsl(parts.query))
    _port("REDIS_URL", parts)
    number = parts.path.strip("/") if parts.scheme in TCP_SCHEMES else ""
    for database in (number or "0", _database(options)):
        if not (database.isascii() and database.isdigit()):
            raise ValueError(f"the database of REDIS_URL must be a number, not {database!r}")
    return parts, options


def _database(options: dict[str, str]) -> str:
    return options.get("db", options.get("virtual_host", "0"))


def _socket_url(scheme: str, parts: SplitResult, options: dict[str, str]) -> str:
    password = quote(unquote(parts.password or ""), safe="")
    login = f":{password}@" if password else ""
    return f"{scheme}://{login}{parts.path}?{urlencode(options)}"
