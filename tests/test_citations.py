"""Sections of the papers that the code and the documents cite exist."""

import re

from controlplane.embedded.instance import PROJECT

SECTIONS = {
    "Paragon": "1 2 2.1 2.2 2.3 2.4 3 3.1 3.2 3.3 3.4 3.5 3.6 4 4.1 4.2 4.3 4.4 5 6 6.1 6.2 7 8",
    "Quasar": "1 2 2.1 2.2 3 3.1 3.2 3.3 3.4 4 4.1 4.2 4.3 4.4 5 6 6.1 6.2 6.3 6.4 6.5 7",
    "Tarcil": "1 2 3 3.1 3.2 3.3 4 5 5.1 5.2 5.3 6 6.1 6.2 6.2.1 6.2.2 6.3 7",
    "ClavisMO": "1 2 3 3.1 3.2 4 4.1 4.2 4.3 4.4 4.5 5 6 7 8",
}
CITED = re.compile(
    rf"\b({'|'.join(SECTIONS)})(?:'s)?\s\(?§([\d.]+(?:(?:,\s§|\sand\s§|-§?)\d[\d.]*)*)"
)
FOLDERS = {"apps": "py", "benchmarks": "py", "tests": "py", "docs": "md", "templates": "html"}


def citations(text: str) -> list[tuple[str, str]]:
    """Return the papers and sections that a text cites."""
    return [
        (paper, number.strip("."))
        for paper, numbers in CITED.findall(text)
        for number in re.findall(r"\d[\d.]*", numbers)
    ]


def test_every_section_of_a_citation_is_read() -> None:
    text = "Paragon §2.1 and §2.2; Quasar §3.2-3.4. Tarcil §5, 40 servers, ClavisMO's (§4.3, §4.4)"
    assert citations(text) == [
        ("Paragon", "2.1"), ("Paragon", "2.2"), ("Quasar", "3.2"), ("Quasar", "3.4"),
        ("Tarcil", "5"), ("ClavisMO", "4.3"), ("ClavisMO", "4.4"),
    ]  # fmt: skip


def test_every_cited_section_of_a_paper_exists() -> None:
    known = {paper: set(numbers.split()) for paper, numbers in SECTIONS.items()}
    cited = [
        (path.relative_to(PROJECT).as_posix(), paper, number)
        for folder, kind in FOLDERS.items()
        for path in sorted((PROJECT / folder).rglob(f"*.{kind}"))
        for paper, number in citations(path.read_text())
    ]
    assert len(cited) > 100
    assert [each for each in cited if each[2] not in known[each[1]]] == []
