# SPDX-License-Identifier: Apache-2.0
"""README.md for a package index, where the files that it links to do not exist.

This tree does not know the URL of its repository; the person who builds gives it in HOME_URL.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

HOME_URL = "ROCECOLL_HOME_URL"  # such as https://example.org/owner/rocecoll

FENCED = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)\n*")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def checked_home(url: str) -> str:
    """The URL without a final slash; empty: not known."""
    parts = urlsplit(url)
    if url and not (parts.scheme == "https" and parts.netloc and parts.path.strip("/")):
        raise ValueError(
            f"{HOME_URL}={url!r} is no address of a repository: accepted is one such as "
            "https://example.org/owner/rocecoll"
        )
    return url.rstrip("/")


def is_relative(target: str) -> bool:
    return not re.match(r"\w+:", target)


def long_description(readme: str, home: str, version: str) -> str:
    """Makes links lead to the files of that version; without a home drops links and pictures."""
    parts = FENCED.split(readme)  # every second one is a block of code
    parts[::2] = [rewrite(text, home, f"v{version}") for text in parts[::2]]
    return "".join(parts)


def rewrite(text: str, home: str, tag: str) -> str:
    def picture(found: re.Match[str]) -> str:
        if not is_relative(found[2]):
            return found[0]
        # `raw` and `blob` mean the same on GitHub and on GitLab.
        return found[0].replace(found[2], f"{home}/raw/{tag}/{found[2]}") if home else ""

    def link(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        if not is_relative(target):
            return found[0]
        if home:
            return f"[{words}]({home}/blob/{tag}/{target})"
        return words if words == target.partition("#")[0] else f"{words} ({target})"

    return LINK.sub(link, PICTURE.sub(picture, text))


def project_urls(home: str, version: str) -> dict[str, str]:
    if not home:
        return {}
    files = f"{home}/blob/v{version}"
    return {
        "Homepage": home,
        "Documentation": f"{files}/docs/index.md",
        "Changelog": f"{files}/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }
