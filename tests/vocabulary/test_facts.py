"""Numbers, dates, units, names and denials mean the same however they are written."""

import pytest

from headwater.facts import absent, denials, names, numbers, opposed, turned, unlike
from headwater.swaps import swaps
from headwater.tokens import fold


def read(text: str) -> list[tuple[float, str]]:
    return [(one.value, one.unit) for one in numbers(fold(text))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("26 weeks", [(26, "week")]),
        ("twenty-six weeks", [(26, "week")]),
        ("二十六周", [(26, "week")]),
        ("２６周", [(26, "week")]),
        ("98.5%", [(98.5, "%")]),
        ("98.5 per cent", [(98.5, "%")]),
        ("98.5 percent", [(98.5, "%")]),
        ("百分之九十八点五", [(98.5, "%")]),
        ("2024年3月5日", [(2024, "year"), (3, "of year"), (5, "of month")]),
        ("2024-03-05", [(2024, "year"), (3, "of year"), (5, "of month")]),
        ("March 5, 2024", [(2024, "year"), (3, "of year"), (5, "of month")]),
        ("5 March 2024", [(2024, "year"), (3, "of year"), (5, "of month")]),
        ("2024年3月", [(2024, "year"), (3, "of year")]),
        ("March 2024", [(2024, "year"), (3, "of year")]),
        ("31 May", [(5, "of year"), (31, "of month")]),
        ("it may rain", []),
        ("1. 25 days\n12) five weeks", [(25, "day"), (5, "week")]),
        ("八月十八日", [(8, "of year"), (18, "of month")]),
        ("二〇二四年", [(2024, "year")]),
        ("1,200 metres", [(1200, "metre")]),
        ("一千二百米", [(1200, "metre")]),
        ("1.5万元", [(15000, "yuan")]),
        ("一点五万元", [(15000, "yuan")]),
        ("three million dollars", [(3_000_000, "dollar")]),
        ("the nineteenth century", [(19, "")]),
        ("the 19th century", [(19, "")]),
        ("error PPR9087", []),
        ("one of the best", []),
    ],
)
def test_numbers_are_values(text: str, found: list[tuple[float, str]]) -> None:
    assert read(text) == found


def test_a_number_with_another_unit_is_another_number() -> None:
    (weeks,), days = numbers("26 weeks"), numbers("26 days")
    assert unlike(weeks, days)
    assert not unlike(weeks, numbers("26"))
    assert not unlike(weeks, numbers("26周"))
    assert unlike(numbers("37092319880115")[0], numbers("37092319880715"))


def test_a_number_for_another_time_is_another_number() -> None:
    (monthly,) = numbers("6,400 a month")
    assert unlike(monthly, numbers("6400 per year")) and not unlike(monthly, numbers("6400/month"))
    assert not unlike(monthly, numbers("6400"))  # nothing is said of the time
    assert unlike(numbers("48000元/月")[0], numbers("48000元/年"))


def test_what_something_goes_from_is_not_what_it_goes_to() -> None:
    assert turned("it grew from 83 to 74", "it grew from 74 to 83")
    assert turned("from 31 august 2023 to 1 september 2028", "from 1 september 2023 to 31 august 2028")
    assert turned("员工由83人增至74人", "员工由74人增至83人")
    assert not turned("it grew to 83 from 74", "it grew from 74 to 83")
    assert not turned("from may 2023 to june 2023", "from 3 may 2023 to 8 june 2023")
    assert not turned("there were 74 and 83", "it grew from 74 to 83")


def test_names_are_found_in_both_languages() -> None:
    assert names("The dam was built by John Henry and IBM in Paris.") == ["john", "henry", "ibm", "paris"]
    assert names("When it rains, nobody works.") == []
    assert "华盛顿" in names("他住在华盛顿。") and "华盛顿" in names("他住在華盛頓。")
    assert not absent("germany", fold("The German army."))
    assert not absent("normans", fold("a Norman duke"))
    assert absent("telenet", fold("a network")) and absent("华盛顿", "他住在伦敦")


def test_what_is_denied_has_an_end() -> None:
    text = "it was not issued in 1629, and nobody paid"
    assert [text[one.start : one.reach] for one in denials(text)] == ["not issued in 1629", "nobody paid"]
    assert denials("不仅如此，他不断努力，非常好，未来可期") == []
    assert len(denials("他没有来，也从未写信，并不知道")) == 3


def test_opposite_directions() -> None:
    assert opposed("sales increased by 5%", "sales fell by 5%")
    assert opposed("人口减少了", "人口增加了")
    assert not opposed("sales rose", "sales rose, and then fell")
    assert not opposed("sales rose", "sales were good")
    assert opposed("sales fell to 12 million", "sales were 12 million, up from 10 million")
    assert opposed("租金每年下调", "租金每年上调")
    assert opposed("at least five days may be carried over", "up to five days may be carried over")
    assert opposed("25 days of unpaid leave", "25 days of paid leave")
    assert not opposed("paid and unpaid leave", "paid leave") and not opposed("unless it is less", "less is more")
    assert not opposed("under the unit", "until then, it was")


def test_swaps_are_seen_where_all_around_is_the_same() -> None:
    assert list(swaps("据悉,亚洲从10月开始减产", "据悉,印度从10月开始减产")) == [("亚洲", "印度")]
    given = "spain ceded florida to the british in 1763"
    assert list(swaps("spain ceded canada to the british in 1763", given)) == [("canada", "florida")]
    assert list(swaps("it ceded canada soon", "they ceded florida early")) == []  # one word beside it is too little
    assert list(swaps("the tenant pays a deposit", "the landlord pays a deposit")) == [("tenant", "landlord")]
    assert list(swaps("park moved to busan", "linde moved to busan", from_start=False)) == []
    assert list(swaps(given, given)) == []
    assert list(swaps("in 1763 it was ceded", given)) == []
