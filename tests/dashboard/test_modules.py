"""The modules that a page requests at once."""

from pathlib import Path

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.dashboard import files
from apps.dashboard.core.modules import loaded_with, modules_by_page
from tests.dashboard import test_static

SCRIPTS = {
    "a.js": 'import { b } from "./part/b.js";\nimport {\n  c,\n  d,\n} from "./c.js";',
    "part/b.js": 'import { c } from "../c.js";\nexport const b = () => import("./later.js");',
    "c.js": 'import { a } from "./a.js";',
}


def test_modules_are_loaded_with_their_imports() -> None:
    assert loaded_with(["a.js"], SCRIPTS.__getitem__) == ("a.js", "part/b.js", "c.js")


def test_the_modules_of_pages_are_those_of_the_list_in_the_script() -> None:
    text = 'const PAGES = {\n  job: "./pages/job.js",\n  "lab-run": "./pages/lab.js",\n};\n'
    assert modules_by_page(text) == {"job": "pages/job.js", "lab-run": "pages/lab.js"}


@pytest.mark.parametrize("script", test_static.PAGE_SCRIPTS, ids=lambda path: path.stem)
def test_each_module_of_a_page_belongs_to_a_page(script: Path) -> None:
    app = (files.SCRIPTS / "app.js").read_text(encoding="utf-8")
    assert f"pages/{script.name}" in modules_by_page(app).values()


@pytest.mark.django_db
def test_a_page_preloads_all_modules_that_it_loads(client: Client) -> None:
    client.force_login(User.objects.create_user("ada"))
    links = modules_in(client.get("/jobs/").content.decode())
    scripts = [
        test_static.STATIC / "berth" / "js" / name
        for name in ("app.js", "clock.js", "pages/jobs.js")
    ]
    loaded = set().union(*(test_static.loaded_with(script) for script in scripts))
    expected = {f"/{path}" for path in loaded if path.name != "app.js"}
    assert set(links) == expected
    assert len(links) == len(set(links))


@pytest.mark.django_db
def test_the_page_to_sign_in_preloads_no_module_of_other_pages(client: Client) -> None:
    links = modules_in(client.get("/login/").content.decode())
    assert "/static/berth/js/charts.js" in links
    assert not [link for link in links if "/pages/" in link or "clock" in link]


def modules_in(html: str) -> list[str]:
    return [part.partition('"')[0] for part in html.split('rel="modulepreload" href="')[1:]]
