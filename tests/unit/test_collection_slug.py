from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.ledger.names import collection_slug


@pytest.mark.parametrize("name", ["knowledge_base", "kb2", "a-b_c", "x" * 63])
def test_a_name_that_is_a_slug_stays_as_it_is(name: str) -> None:
    assert collection_slug(name) == name


def test_slugs_stay_the_same_from_version_to_version() -> None:
    # A folder and a server's collection are found by these: another value would lose them.
    assert collection_slug("My notes") == "my-notes-fa263f43cf"
    assert collection_slug("知识库") == "kb-975b35f9c2"
    assert collection_slug("ab") == "ab-fb8e20fc2e"


@given(st.text(min_size=1, max_size=200))
def test_every_name_gives_a_slug_that_stores_and_file_systems_accept(name: str) -> None:
    slug = collection_slug(name)
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]", slug)
    assert collection_slug(unicodedata.normalize("NFD", name)) == collection_slug(unicodedata.normalize("NFC", name))


@given(st.lists(st.text("aAbB-_ 知é1", min_size=1, max_size=6), unique=True, max_size=30))
def test_different_names_have_different_slugs_whatever_their_case(names: list[str]) -> None:
    assert len({collection_slug(name) for name in names}) == len(names)


def test_a_name_that_looks_like_the_slug_of_another_does_not_take_its_place() -> None:
    slug = collection_slug("My notes")
    assert collection_slug(slug) != slug


@pytest.mark.parametrize("name", ["con", "nul", "com1", "lpt9"])
def test_names_that_windows_keeps_for_devices_are_avoided(name: str) -> None:
    assert collection_slug(name).startswith(f"{name}-")


def test_long_names_and_names_of_80_characters_that_differ_at_the_end_stay_apart() -> None:
    first, second = collection_slug("x" * 79 + "1"), collection_slug("x" * 79 + "2")
    assert first != second
    assert len(first) == len(second) == 63
