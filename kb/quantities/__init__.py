"""Numbers, dates and times of a text, and whether another text states the same, whatever they are written as.

30 = thirty = 三十 = ３０, 1,200 = 1200, 1.5 million = 150万, 50 % = fifty percent = 百分之五十 = 五割,
March 5, 2021 = 2021-03-05 = 2021年3月5日, 3 pm = 15:00 = 下午三点 = 午後3時, 24 hours = 1 day.

What a text *states* is read generously (every numeral is a number), what is to be *checked* strictly: 一些 and
"one of them" hold no number that anybody could get wrong.
"""

from kb.quantities.agreeing import agrees
from kb.quantities.reading import Quantity, quantities

__all__ = ["Quantity", "agrees", "quantities"]
