import numpy as np
import pytest

from kb.background import Background, taken_off


def rows(*vectors: tuple[float, ...]) -> np.ndarray:
    return np.array(vectors, np.float32)


QUESTION = np.array([1, 0, 0], np.float32)


def many(first: float, count: int) -> np.ndarray:
    """`count` unit vectors whose similarity to QUESTION is `first`."""
    return rows(*[(first, (1 - first**2) ** 0.5, 0)] * count)


def test_a_script_near_to_everything_has_a_higher_level_than_one_far_from_everything() -> None:
    levels = Background({"han": many(0.5, 1000), "latin": many(0.1, 1000)}).levels(QUESTION)
    # Ten borrowed rows of the whole, whose mean is 0.3.
    assert levels["han"] == pytest.approx((1000 * 0.5 + 10 * 0.3) / 1010, abs=1e-6)
    assert levels["latin"] == pytest.approx((1000 * 0.1 + 10 * 0.3) / 1010, abs=1e-6)


def test_few_chunks_of_a_script_are_drawn_towards_the_mean_of_all() -> None:
    levels = Background({"han": many(0.9, 1), "latin": many(0.1, 999)}).levels(QUESTION)
    whole = (0.9 + 999 * 0.1) / 1000
    assert levels["han"] == pytest.approx((0.9 + 10 * whole) / 11, abs=1e-6)


def test_with_one_script_alone_nothing_is_taken_off() -> None:
    assert taken_off({"latin": 0.4}, "latin") == 0.0


def test_the_script_with_the_lowest_level_keeps_its_similarities() -> None:
    levels = {"latin": 0.1, "han": 0.35}
    assert taken_off(levels, "latin") == 0.0
    assert taken_off(levels, "han") == pytest.approx(0.8 * (0.35 - 0.1))
    assert taken_off(levels, "greek") == 0.0


def test_an_empty_base_has_no_level_and_no_direction() -> None:
    background = Background({})
    assert background.levels(QUESTION) == {}
    assert background.directions(QUESTION, "latin") == []


def test_directions_lead_to_each_other_script_and_are_of_unit_length() -> None:
    background = Background({"latin": rows((0, 1, 0)), "han": rows((0, 0, 1))})
    (moved,) = background.directions(QUESTION, "latin")
    assert np.linalg.norm(moved) == pytest.approx(1)
    assert moved @ rows((0, 0, 1))[0] > QUESTION @ rows((0, 0, 1))[0]
    assert background.directions(QUESTION, "greek") == []
