"""Expressions and lookups of the search for jobs by the words of their names."""

import re
from typing import Any, Final

from django.contrib.postgres.search import SearchVectorField
from django.db import models

SEPARATORS: Final = re.compile(r"[\x01-/:-@\[-`{-\x7f]+")  # of words: ASCII but letters and digits
MAX_TEXT: Final = 200  # characters, as in REST; PostgreSQL refuses words of more than 2,046 bytes


class Words(models.Func):
    """The words of a text, in lower case, as lexemes (a function of a migration)."""

    function = "workloads_words"
    arity = 1
    output_field = SearchVectorField()


def words_query(text: str) -> str:
    """Return the ``tsquery`` that each word of a text begins a word; "" matches nothing.

    A text that is too long matches nothing.
    """
    if len(text) > MAX_TEXT:
        return ""
    words = SEPARATORS.split(text.lower())
    return " & ".join(f"'{word}':*" for word in words if word)


@models.CharField.register_lookup
class HasWords(models.Lookup):
    """Whether each word of the value begins a word of the text; see `selectors.name_search`."""

    lookup_name = "has_words"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        """Return a condition on the row."""
        text, parameters = self.process_lhs(compiler, connection)
        return f"workloads_words({text}) @@ %s::tsquery", (*parameters, words_query(self.rhs))


@models.UUIDField.register_lookup
class NamedWith(models.Lookup):
    """Whether the value is the id of a job whose name has the words, found by `terms_by_word`.

    The array is computed first, whatever number of jobs the planner expects.
    """

    lookup_name = "named_with"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        """Return a condition on the id."""
        key, parameters = self.process_lhs(compiler, connection)
        named = (
            "SELECT job_id FROM workloads_searchterms WHERE workloads_words(name) @@ %s::tsquery"
        )
        return f"{key} = ANY(ARRAY({named}))", (*parameters, words_query(self.rhs))
