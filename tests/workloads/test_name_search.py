"""The search for jobs by the beginnings of the words of their names."""

import pytest

from apps.workloads import selectors
from apps.workloads.models import Job
from tests import factories

pytestmark = pytest.mark.django_db
NAMES = ["wordcount-0042", "Web.front_end", "sort", "resort/2"]


@pytest.fixture(params=[0, 1_000], ids=["common", "rare"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search in both ways: on the walk through the newest jobs, and by the index."""
    monkeypatch.setattr(selectors, "COMMON_FROM", request.param)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sort", {"sort"}),
        ("SO", {"sort"}),
        ("word", {"wordcount-0042"}),
        ("count", set()),
        ("0042", {"wordcount-0042"}),
        ("004 word", {"wordcount-0042"}),
        ("wordcount-0042", {"wordcount-0042"}),
        ("front end", {"Web.front_end"}),
        ("2", {"resort/2"}),
        ("-- ", set()),
        ("it's \\ & ! :*", set()),
        ("", set()),
        pytest.param("s" * 5_000, set(), id="long word"),
        pytest.param("sort " * 1_000, set(), id="long text"),
    ],
)
def test_each_word_begins_a_word_of_the_name(text: str, found: set[str]) -> None:
    for name in NAMES:
        factories.job(name)
    jobs = Job.objects.filter(selectors.name_search(text))
    assert set(jobs.values_list("name", flat=True)) == found


def test_a_word_of_many_of_the_newest_jobs_is_searched_on_the_way() -> None:
    for _ in range(selectors.COMMON_FROM):
        factories.job("sort")
    factories.job("index")
    assert "has_words" in str(selectors.name_search("sort"))
    assert "named_with" in str(selectors.name_search("index"))
