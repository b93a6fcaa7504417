"""Growing and shrinking sets of items, where it is tried which of them are needed."""

from __future__ import annotations

from amp_migrate.verify.experiments.search import grow, largest, shrink
from hypothesis import given, settings
from hypothesis import strategies as st


def test_growing_doubles_until_it_holds() -> None:
    tried: list[int] = []

    def holds(items: tuple[int, ...]) -> bool:
        tried.append(len(items))
        return 4 in items

    assert grow(range(11), holds) == tuple(range(8))
    assert tried == [1, 2, 4, 8]


def test_growing_ends_with_all_items_and_gives_nothing_where_they_are_not_enough() -> None:
    tried: list[int] = []
    assert grow(range(5), lambda items: bool(tried.append(len(items)))) == ()  # type: ignore[func-returns-value]
    assert tried == [1, 2, 4, 5]


@settings(deadline=None)
@given(st.sets(st.integers(0, 30), min_size=1), st.integers(31, 60))
def test_what_is_needed_is_what_is_kept(needed: set[int], size: int) -> None:
    assert set(shrink(range(size), lambda items: needed <= set(items))) == needed


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 12), min_size=1, max_size=4), min_size=1, max_size=4))
def test_nothing_that_is_kept_can_be_left_out_where_several_choices_hold(choices: list[set[int]]) -> None:
    def holds(items: tuple[int, ...]) -> bool:
        return any(choice <= set(items) for choice in choices)

    kept = shrink(range(13), holds)
    assert holds(kept)
    assert not any(holds(tuple(item for item in kept if item != left_out)) for left_out in kept)


def test_one_needed_item_of_many_takes_few_tries() -> None:
    tried: list[tuple[int, ...]] = []

    def holds(items: tuple[int, ...]) -> bool:
        tried.append(items)
        return 77 in items

    assert shrink(range(128), holds) == (77,)
    assert len(tried) <= 16


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(0, 100_000))
def test_the_largest_number_that_fits_is_found_to_within_a_sixteenth(start: int, limit: int) -> None:
    tried: list[int] = []

    def fits(size: int) -> bool:
        tried.append(size)
        return size <= limit

    found = largest(fits, start)
    if limit < start:
        assert found == 0
    else:
        assert found <= limit <= found + max(1, found // 16)
    assert len(tried) <= 25
    assert max(tried) <= max(start, 2 * limit)  # nothing far beyond what fits is tried
