"""Text beside marks: inside the drawing, on no mark and on no other text, on a phone and on a wide screen."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from computeledger.interfaces.plots.names import Labels
from computeledger.interfaces.plots.rl import _crossed, _hung

_WIDTHS = (262.0, 400.0, 700.0, 1150.0)

_PLACES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=25)


def _boxes(labels: Labels, width: float) -> list[tuple[float, float, float, float]]:
    """Texts in pixels on a drawing of some width."""
    return [(one.at * width + one.left, one.bottom, one.at * width + one.right, one.top) for one in labels._texts]


def _apart(labels: Labels) -> bool:
    """Whether no text lies on another text, or on the line of one but its own."""
    return all(
        one[0] >= other[2] or other[0] >= one[2] or one[1] >= other[3] or other[1] >= one[3]
        for width in _WIDTHS
        for one, other in itertools.combinations(_boxes(labels, width), 2)
    )


@given(_PLACES)
def test_names_that_are_not_needed_lie_on_nothing(places: list[tuple[float, float]]) -> None:
    labels = Labels((0.0, 1.0), (0.0, 1.0), 320.0)
    for place in places:
        labels.mark(*place)
    shown = sum(labels.name("Model-30B", *place) for place in places)
    assert shown == len([one for one in labels.notes if one["text"]])
    assert _apart(labels)
    for width in _WIDTHS:
        own = [(x * width, y * 320.0) for x, y in places]
        for left, bottom, right, top in _boxes(labels, width):
            if right - left <= 2.0:  # the line of a text
                continue
            assert left >= 0
            assert right <= width
            assert 0 <= bottom <= top <= 320
            assert not [one for one in own if left < one[0] < right and bottom < one[1] < top]


@given(_PLACES)
def test_a_needed_name_always_stands_and_the_first_has_the_choice(places: list[tuple[float, float]]) -> None:
    labels = Labels((0.0, 1.0), (0.0, 1.0), 320.0)
    for place in places:
        labels.mark(*place)
    assert labels.name("the answer:<br>thinking up to 24K tokens", *places[0], size_px=16, is_answer=True,
                       is_needed=True)  # fmt: skip
    for place in places[1:]:
        labels.name("Model-30B", *place)
    assert _apart(labels)


@pytest.mark.parametrize("size", [8.0, 18.0])
def test_text_says_where_it_was_placed(size: float) -> None:
    """Anchors and shifts of an annotation put it into the box that was looked at."""
    labels = Labels((0.0, 1.0), (0.0, 1.0), 320.0)
    labels.mark(0.5, 0.5, size)
    labels.name("M", 0.5, 0.5, size_px=size)
    note, (left, bottom, right, top) = labels.notes[0], _boxes(labels, 262.0)[0]
    at = 131.0 + note["xshift"], 160.0 + note["yshift"]
    assert at[0] == {"left": left, "right": right, "center": (left + right) / 2}[note["xanchor"]]
    assert at[1] == {"bottom": bottom, "top": top, "middle": (bottom + top) / 2}[note["yanchor"]]


@pytest.mark.parametrize("model", ["Qwen/Qwen3-32B", "Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V3"])
@pytest.mark.parametrize("begins", [(0.78, 0.79, 0.83, 0.9, 0.95), (0.02, 0.1, 0.2, 0.6), (0.05, 0.5, 0.96)])
def test_labels_below_a_step_are_neither_crossed_nor_cut(model: str, begins: tuple[float, ...]) -> None:
    """From the top down: no line to a lower label runs through one, and all of it is on a phone."""
    said = f"{model.rpartition('/')[2]}, waiting  <b>870 ms</b>"
    hung = _hung([(at, said) for at in begins])
    assert sorted(one.at for one in hung) == sorted(begins)
    for place, one in enumerate(hung):
        assert _crossed(one.at, one.text, one.side, [other.at for other in hung[place + 1 :]]) == 0
