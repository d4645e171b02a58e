"""Batches through three steps: in order, none lost, none seen before it is durable, none begun too early."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from headwater import relay as module
from headwater.relay import Turn, relay

Durable = Callable[[], None]


class Steps:
    """Writes down what happens, in order."""

    def __init__(self, count: int = 3, *, preparing_seconds: float = 0.0, storing_seconds: float = 0.0) -> None:
        self.count, self.preparing_seconds, self.storing_seconds = count, preparing_seconds, storing_seconds
        self.seen: list[str] = []
        self.committing = threading.Event()
        self.halted = False

    def batches(self) -> Iterator[int]:
        for number in range(self.count):
            self.seen.append(f"prepare {number}")
            time.sleep(self.preparing_seconds)
            yield number
        self.seen.append("no more")

    def store(self, batch: int, turn: Turn[int]) -> None:
        self.seen.append(f"feed {batch}")
        time.sleep(self.storing_seconds)
        self.seen.append(f"fed {batch}")
        turn.fed(batch)
        time.sleep(self.storing_seconds)
        self.seen.append(f"durable {batch}")
        turn.durable()

    def commit(self, batch: int, durable: Durable) -> None:
        self.committing.set()
        durable()
        self.seen.append(f"commit {batch}")

    def halt(self) -> None:
        self.halted = True

    def run(self, **others: Callable[..., None]) -> None:
        steps = {"store": self.store, "commit": self.commit, "halt": self.halt, **others}
        relay(self.batches(), **steps)  # type: ignore[arg-type]

    def of(self, *names: str) -> list[str]:
        return [one for one in self.seen if one.split()[0] in names]

    def came(self, *order: str) -> None:
        places = [self.seen.index(one) for one in order]
        assert places == sorted(places), (order, self.seen)


def test_every_batch_is_stored_and_then_committed_in_order() -> None:
    steps = Steps(5)
    steps.run()
    assert steps.of("commit") == [f"commit {n}" for n in range(5)]
    for n in range(5):
        steps.came(f"prepare {n}", f"feed {n}", f"durable {n}", f"commit {n}")
    assert not steps.halted


def test_nothing_at_all_is_fine() -> None:
    steps = Steps(0)
    steps.run()
    assert steps.seen == ["no more"]


def test_what_takes_less_time_than_storing_is_prepared_when_the_index_is_fed() -> None:
    steps = Steps(4, storing_seconds=0.05)
    steps.run()
    # The first two come as fast as they can: nobody knows yet what takes how long.
    steps.came("fed 1", "prepare 2", "durable 1", "fed 2", "prepare 3", "durable 2")
    steps.came("fed 2", "commit 1", "fed 3", "commit 2")


def test_what_takes_longer_than_storing_is_prepared_at_once_and_nothing_waits_for_it() -> None:
    steps = Steps(4, preparing_seconds=0.1, storing_seconds=0.02)
    steps.run()
    steps.came("prepare 2", "fed 1", "prepare 3", "fed 2")
    steps.came("commit 1", "feed 2", "commit 2", "feed 3")


def test_the_last_batch_is_written_while_the_index_is_waited_for() -> None:
    steps = Steps(1)

    def store(batch: int, turn: Turn[int]) -> None:
        turn.fed(batch)
        assert steps.committing.wait(10), "it begins before all is durable"
        steps.seen.append("durable 0")
        turn.durable()

    steps.run(store=store)
    steps.came("durable 0", "commit 0")


def test_what_was_durable_is_committed_when_the_next_cannot_be_stored() -> None:
    steps = Steps(3)

    def store(batch: int, turn: Turn[int]) -> None:
        if batch == 1:
            raise OSError("no room")
        steps.store(batch, turn)

    with pytest.raises(OSError, match="no room"):
        steps.run(store=store)
    assert steps.of("commit") == ["commit 0"] and steps.halted


@pytest.mark.parametrize("count", [1, 2])
def test_what_does_not_become_durable_is_not_committed(count: int) -> None:
    """Also the last one, which is being written by then."""
    steps = Steps(count)

    def store(batch: int, turn: Turn[int]) -> None:
        if batch < count - 1:
            return steps.store(batch, turn)
        turn.fed(batch)
        time.sleep(0.05)
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        steps.run(store=store)
    assert steps.of("commit") == [f"commit {n}" for n in range(count - 1)] and steps.halted


def test_an_error_of_preparing_comes_out_and_what_was_stored_is_committed() -> None:
    steps = Steps(2)

    def batches() -> Iterator[int]:
        yield 0
        raise ValueError("cannot be read")

    with pytest.raises(ValueError, match="cannot be read"):
        relay(batches(), store=steps.store, commit=steps.commit, halt=steps.halt)
    assert steps.of("commit") == ["commit 0"] and steps.halted


def test_an_error_of_committing_comes_out() -> None:
    steps = Steps(3)

    def commit(batch: int, durable: Durable) -> None:
        raise OSError(f"no room for {batch}")

    with pytest.raises(OSError, match="no room for 0"):
        steps.run(commit=commit)
    assert steps.halted


def test_who_waits_is_told_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TELL_SECONDS", 0.01)
    steps = Steps(1, preparing_seconds=0.1)
    steps.run(tell=lambda: steps.seen.append("tell"))
    steps.came("prepare 0", "tell", "feed 0")


@pytest.mark.parametrize("where", ["prepare", "feed", "flush", "told", "commit", "committed"])
@pytest.mark.parametrize("number", range(4))
def test_wherever_it_breaks_off_it_ends(where: str, number: int) -> None:
    steps = Steps(4)

    def breaking(place: str, batch: int) -> None:
        time.sleep(0.001)
        if (place, batch) == (where, number):
            raise OSError(f"{place} {batch}")

    def batches() -> Iterator[int]:
        for batch in range(4):
            breaking("prepare", batch)
            yield batch

    def store(batch: int, turn: Turn[int]) -> None:
        breaking("feed", batch)
        turn.fed(batch)
        breaking("flush", batch)
        turn.durable()
        breaking("told", batch)

    def commit(batch: int, durable: Durable) -> None:
        breaking("commit", batch)
        durable()
        steps.seen.append(f"commit {batch}")
        breaking("committed", batch)

    raised: list[OSError] = []

    def run() -> None:
        try:
            relay(batches(), store=store, commit=commit, halt=steps.halt)
        except OSError as error:
            raised.append(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    running.join(20)
    assert not running.is_alive(), "somebody waits for what nobody will say"
    assert [str(error) for error in raised] == [f"{where} {number}"] and steps.halted
    durable = number if where in ("prepare", "feed", "flush", "commit") else number + 1
    assert steps.of("commit")[:durable] == [f"commit {n}" for n in range(durable)]
    if where == "flush":
        assert f"commit {number}" not in steps.seen
