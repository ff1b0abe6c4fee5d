"""How long sign-ins wait after failures."""

import hashlib
import unicodedata
from enum import StrEnum
from typing import Final

FREE: Final = {"account": 5, "address": 20}  # failures without a delay
MAX_DELAY_S: Final = 900.0
FORGET_S: Final = 86400.0  # failures older than this do not count
# Names of the routes open to a session that began with a one-time password.
BEFORE_PASSWORD_CHANGE: Final = frozenset({"api-password", "api-me", "password", "logout"})


class Subject(StrEnum):
    """What failed sign-ins are counted for."""

    ACCOUNT = "account"
    ADDRESS = "address"


def delay_s(subject: Subject, failures: int) -> float:
    """Return the seconds to wait after a number of failures: 0, then 2, 4, 8 ... 900.

    An address gets more free failures than an account, as people behind one proxy share it.
    """
    excess = failures - FREE[subject]
    return 0.0 if excess <= 0 else min(MAX_DELAY_S, 2.0 ** min(excess, 30))


def account_key(username: str) -> str:
    """Return the key of an account, the same whether or not the account exists.

    A digest, because people type passwords into the wrong field.
    """
    name = unicodedata.normalize("NFKC", username).casefold()
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


def wait_text(seconds: float) -> str:
    """Return a waiting time in words, rounded up."""
    whole = max(1, int(seconds + 0.999))
    if whole < 60:
        return f"{whole} second{'s' if whole > 1 else ''}"
    minutes = -(-whole // 60)
    return f"{minutes} minute{'s' if minutes > 1 else ''}"
