"""Whether what one text says of a number, date or time is what another one says."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from kb.quantities.dates import Day
from kb.quantities.reading import Quantity
from kb.quantities.units import comparable

LOOSE = Fraction(1, 20)
"""How far from a number "about", "nearly" and 约 may be: 1,487,212 is about 1.5 million."""
_TWELVE_HOURS = 720
_DAY_ENDINGS = ("st", "nd", "rd", "th", "日", "号", "號")


def agrees(claimed: Quantity, stated: Iterable[Quantity]) -> bool:
    """Whether one of the stated quantities is the claimed one.

    A date may be put together of two: the day of one and the year of another. A unit counts where both have one that
    is known. "About" allows a difference of `LOOSE` from a number that
    isn't itself about so much.
    """
    if claimed.unit == "date":
        every = list(stated)
        return any(_dated(day, every) for day in claimed.days)
    return any(_same(claimed, one) for one in stated)


def _same(claimed: Quantity, stated: Quantity) -> bool:
    if stated.unit == "date":
        return claimed.unit in ("", "months") and any(_part_of(claimed, day) for day in stated.days)
    if "time" in (claimed.unit, stated.unit):
        if claimed.unit != stated.unit:  # 13時頃 is a time of day, 十三時 alone may be any number
            return not (claimed.unit or stated.half_known) and _plain(claimed) * 60 == stated.value
        known = claimed.half_known and stated.half_known
        difference = claimed.value - stated.value
        return difference == 0 if known else difference % _TWELVE_HOURS == 0
    if "decade" in (claimed.unit, stated.unit) and (claimed.value < 100 or stated.value < 100):
        return claimed.value % 100 == stated.value % 100
    if not claimed.loose and claimed.value != stated.value and _plain(claimed) != _plain(stated):
        return _percent_of_one(claimed, stated) or _percent_of_one(stated, claimed)
    if _percent_of_one(claimed, stated) or _percent_of_one(stated, claimed):
        return True
    if not comparable(claimed.unit, stated.unit):
        return False
    loose = claimed.loose and not stated.loose
    if claimed.unit and stated.unit:
        return _near(claimed.value, stated.value, loose=loose)
    return _near(_plain(claimed), _plain(stated), loose=loose)


def _part_of(claimed: Quantity, day: Day) -> bool:
    """Whether a number is the year of a date, or as "the 5th" its day."""
    return _plain(claimed) == day[0] or (claimed.text.endswith(_DAY_ENDINGS) and _plain(claimed) == day[2])


def _plain(one: Quantity) -> Fraction:
    return one.value if one.plain is None else one.plain


def _near(value: Fraction, stated: Fraction, *, loose: bool) -> bool:
    return value == stated or (loose and abs(value - stated) <= LOOSE * abs(stated))


def _percent_of_one(share: Quantity, part: Quantity) -> bool:
    """50 % is a half: 二分の一, one half."""
    return share.unit == "%" and not part.unit and part.value < 1 and share.value == 100 * part.value


def _dated(day: Day, stated: list[Quantity]) -> bool:
    dated = [one for quantity in stated for one in quantity.days]
    numbers = {int(_plain(one)) for one in stated if not one.days and _plain(one).denominator == 1}
    year, month, number = day
    if year is not None and not (any(one[0] == year for one in dated) or year in numbers):
        return False
    if month is None and number is None:
        return True
    return any(
        (year is None or one[0] is None or one[0] == year)
        and (month is None or one[1] == month)
        and (number is None or one[2] == number)
        for one in dated
    )
