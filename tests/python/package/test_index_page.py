# SPDX-License-Identifier: Apache-2.0
"""What a package index shows: README.md without dead links, and the project's addresses where
known."""

from __future__ import annotations

import re

import index_page
import pytest
from launch import ROOT

pytestmark = pytest.mark.quick

HOME = "https://example.org/owner/rocecoll"
README = (ROOT / "README.md").read_text()
TEXT = """![a picture](docs/a.svg)

See [docs/a.md](docs/a.md#part), [the guide](docs/b.md) and [elsewhere](https://example.com/x).

```
[left](as it is)
```
[docs/c.md](docs/c.md) ends.
"""


def test_without_a_home_links_into_the_tree_are_text() -> None:
    assert index_page.long_description(TEXT, "", "1.2") == (
        "See docs/a.md, the guide (docs/b.md) and [elsewhere](https://example.com/x).\n\n"
        "```\n[left](as it is)\n```\ndocs/c.md ends.\n"
    )


def test_with_a_home_links_lead_to_the_files_of_the_version() -> None:
    files = f"{HOME}/blob/v1.2/docs"
    assert index_page.long_description(TEXT, HOME, "1.2") == (
        f"![a picture]({HOME}/raw/v1.2/docs/a.svg)\n\n"
        f"See [docs/a.md]({files}/a.md#part), [the guide]({files}/b.md) and "
        "[elsewhere](https://example.com/x).\n\n"
        f"```\n[left](as it is)\n```\n[docs/c.md]({files}/c.md) ends.\n"
    )


@pytest.mark.parametrize("home", ["", HOME])
def test_the_readme_has_no_dead_link(home: str) -> None:
    page = index_page.long_description(README, home, "1.2")
    targets = re.findall(r"\]\(([^)\s]+)\)", page)
    assert all(re.match("https://", target) for target in targets)
    assert bool(targets) == bool(home)
    # Nothing but links has changed.
    assert page.count("```") == README.count("```")
    assert len(page.splitlines()) >= len(README.splitlines()) - 2


@pytest.mark.parametrize(
    "url",
    ["example.org/owner/rocecoll", "http://example.org/o/r", "https://example.org", "https://"],
)
def test_what_is_no_address_of_a_repository_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="ROCECOLL_HOME_URL") as refused:
        index_page.checked_home(url)
    assert str(refused.value).endswith("accepted is one such as https://example.org/owner/rocecoll")


def test_an_address_may_end_in_a_slash() -> None:
    assert index_page.checked_home(f"{HOME}/") == HOME
