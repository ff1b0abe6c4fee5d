"""Sentences that explain a stored decision."""

from dataclasses import replace

from apps.scheduling.core.records.explain import SummaryFacts, summary

GROWN = SummaryFacts(
    outcome="placed",
    policy="least_loaded",
    sentence="",
    units=20,
    units_won=1,
    servers=["srv-0003"],
    examined=1,
    eligible=1,
    servers_total=80,
    dropped={},
    commit_retries=0,
    units_before=10,
)


def test_a_job_that_grew_is_told_what_it_had_and_what_is_missing() -> None:
    assert summary(GROWN) == (
        "The running job was given 1 more on srv-0003, in addition to 10 units, by least_loaded. "
        "It is given the remaining 19 units as units are freed. "
        "The only eligible unit was examined."
    )


def test_a_job_that_started_is_told_its_servers_and_the_units_examined() -> None:
    first = replace(GROWN, units_before=0, units=2, units_won=2, examined=1, eligible=30)
    assert summary(first) == (
        "Placed by least_loaded: 2 units on srv-0003. 1 of 30 eligible units was examined."
    )
