"""Garbage is looked for seldom within the block, and as before after it."""

import gc
import threading
from collections.abc import Iterator

import pytest

from headwater.garbage import SELDOM, seldom_looked_for


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_blocks_may_overlap() -> None:
    gc.set_threshold(700, 10, 10)
    first, second = seldom_looked_for(), seldom_looked_for()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold()[0] == SELDOM
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] == SELDOM
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


def test_an_error_ends_it_too() -> None:
    gc.set_threshold(500, 10, 10)
    with pytest.raises(KeyError), seldom_looked_for():
        raise KeyError
    assert gc.get_threshold() == (500, 10, 10)


@pytest.mark.parametrize("often", [0, SELDOM * 2])
def test_who_never_looks_or_more_seldom_goes_on_so(often: int) -> None:
    gc.set_threshold(often, 10, 10)
    with seldom_looked_for():
        assert gc.get_threshold()[0] == often


def test_many_threads_leave_it_as_it_was() -> None:
    gc.set_threshold(700, 10, 10)

    def work() -> None:
        for _ in range(200):
            with seldom_looked_for():
                assert gc.get_threshold()[0] == SELDOM

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.get_threshold() == (700, 10, 10)
