"""Twenty texts with their float32 vectors (`_e5_check.npy`): is the graph right on this processor?

The vectors are raw (not centred), float16, made by `benchmarks/write_e5_check.py` from the graph in
float32, which agrees with the package's own engine.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.embedding._e5_model import E5Model
    from kb.embedding._e5_tokenizer import E5Tokenizer

VECTORS_FILE = Path(__file__).with_name("_e5_check.npy")
MIN_COSINE = 0.995
"""The least cosine over the texts is .998 for the 8-bit graph where it computes rightly."""

TEXTS = (
    "query: How do I renew my library card?",
    "query: 图书馆周末几点开门?",
    "query: 宿泊の予約を取り消すには、どうすればよいですか。",
    "query: ¿Cuánto tarda el tren de la costa?",
    "query: wo liegt der Ersatzschlüssel",
    "passage: The reading room opens at nine. Members may borrow six books at a time, for four weeks.",
    "passage: Water the seedlings twice a week until the roots reach the bottom of the tray, then move "
    "them outside for a few hours each day. Tomatoes need a stake; beans climb a string.",
    "passage: 展览每周一闭馆。学生凭有效证件可以半价购票,团体参观请提前三天预约。",
    "passage: 温泉旅馆位于山谷中,从车站步行约二十分钟。冬季道路结冰,建议乘坐接驳车前往。",
    "passage: 会議室を使うときは、前日までに受付で申し込んでください。飲み物は持ち込めますが、食事はできません。",
    "passage: この機械は、電源を入れてから約五分で使えるようになります。赤いランプが点滅したら、すぐに止めてください。",
    "passage: Der Schlüssel hängt neben der Kellertür. Wer ihn nimmt, trägt sich bitte in die Liste ein.",
    "passage: La boulangerie prépare ses levains la veille ; les premiers pains sortent du four à six heures.",
    "passage: El sendero rodea el lago y sube hasta el mirador; conviene llevar agua en verano.",
    "passage: Поезд отправляется со второго пути. Билеты можно купить в кассе или у проводника.",
    "passage: 도서관은 매주 월요일에 쉽니다. 책은 두 주 동안 빌릴 수 있습니다.",
    "passage: يفتح المتحف أبوابه كل يوم ما عدا الثلاثاء، والدخول مجاني للأطفال.",
    "passage: def area(width: float, height: float) -> float:\n    return width * height  # in square metres",
    "passage: | Part | Price |\n|---|---|\n| Filter | 12.50 € |\n| Hose, 3 m | 8.90 € |\n| Valve | 21.00 € |",
    "passage: " + "The ferry leaves every forty minutes and carries bicycles free of charge. " * 20,
)


def check_cosine(model: E5Model, tokenizer: E5Tokenizer) -> float:
    """The least cosine between the model's vectors and the stored ones."""
    expected: NDArray[np.float32] = np.load(VECTORS_FILE).astype(np.float32)
    vectors = np.array([model.mean_state(tokenizer.ids(text)) for text in TEXTS])
    return float((vectors * expected / np.linalg.norm(expected, axis=1, keepdims=True)).sum(axis=1).min())
