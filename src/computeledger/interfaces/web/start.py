"""The start page: what this is, six questions with their answers, how far off answers are, and where to read more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from computeledger.facts.load import load_model, model_ids
from computeledger.interfaces.web.answers import Question
from computeledger.interfaces.web.docs_site import DOCS, docs_folder, repository_url
from computeledger.interfaces.web.pages import PAGES, page_named
from computeledger.interfaces.web.shell import rendered
from computeledger.interfaces.web.spec import Page
from computeledger.questions.answers.accuracy import errors_by_workload
from computeledger.questions.wording import listed, percent, short_model
from computeledger.units import format_si

WHAT = "What a language model costs to train, tune and serve, with sources and error bars"
#: What was measured of each workload, in the words of one line.
_MEASURED = {"serving": "a token served", "training": "a training step", "rl": "an RL step"}
#: Pages that answer for a model alone, everything else as they begin; the first is also what Enter asks.
WAYS = (
    ("serve", "Cost to serve"),
    ("compare", "Cheapest hardware"),
    ("memory", "Where it fits"),
    ("pretrain", "Cost to train"),
)


@dataclass(frozen=True, slots=True)
class Example:
    """A question with a page that answers it, and the preset of that page, or nothing for its defaults.

    ``in_truth`` is the open model that the page takes as if it were closed.
    """

    question: str
    page: str
    preset: str = ""
    in_truth: str = ""

    @property
    def query(self) -> str:
        """What its address asks."""
        return urlencode(page_named(self.page).presets[self.preset]) if self.preset else ""

    @property
    def beside(self) -> str:
        """What is known of the open model."""
        if not self.in_truth:
            return ""
        model = load_model(self.in_truth)
        active = format_si(model.published["n_params_active"].value)
        return f"{short_model(self.in_truth)}, taken as if it were closed; in truth it has {active}."

    @property
    def address(self) -> str:
        """Where it is answered.

        Examples
        --------
        >>> Example("What does a gigawatt train?", "frontier", "A 1 GW site of GB200").address
        'frontier?spec=1+GW+facility+of+gb200-gpu'
        """
        return f"{self.page}?{self.query}" if self.query else self.page


EXAMPLES = (
    Example("What does it cost to serve DeepSeek-V3?", "serve"),
    Example("Which hardware serves Llama 3.1 8B for the least?", "compare"),
    Example("What does it cost to train Llama 3.1 405B?", "pretrain", "Llama 3.1 405B on 16K H100"),
    Example("Why is reinforcement learning so expensive?", "rl"),
    Example(
        "What does a price reveal about a model?",
        "sheet",
        "DeepSeek-V3 as if it were closed",
        in_truth="deepseek-ai/DeepSeek-V3",
    ),
    Example("What can a gigawatt train?", "frontier", "A 1 GW site of GB200"),
)


def asked_first() -> list[Question]:
    """What a visitor is likely to ask first: pages on which many begin, the start page, pages that take long.

    Examples
    --------
    >>> [(one.kind, one.page) for one in asked_first()][:3]
    [('view', 'life'), ('view', 'serve'), ('line', 'serve')]
    """
    pages = [page.name for page in PAGES if page.is_ahead]
    views = [Question("view", name, ()) for name in pages[:2]]
    lines = [Question("line", one.page, tuple(parse_qsl(one.query))) for one in EXAMPLES]
    return [*views, *lines, *(one for name in (*pages[2:], *pages[:2]) for one in _of_page(name))]


def _of_page(name: str) -> list[Question]:
    """What a page shows of its defaults, their working and their files: one answer, so that the view costs all."""
    return [Question("view", name, ()), Question("view", name, (("working", "on"),)),
            *(Question(kind, name, ()) for kind in ("csv", "api"))]  # fmt: skip


def start_html(pages: Sequence[Page]) -> str:
    """The page before its answers: it asks for them as soon as it is there.

    Examples
    --------
    >>> from computeledger.interfaces.web.pages import PAGES
    >>> WHAT in start_html(PAGES)
    True
    """
    return rendered(
        "start.html",
        pages=pages,
        what=WHAT,
        examples=EXAMPLES,
        models=model_ids(),
        ways=WAYS,
        accuracy=accuracy_line(),
        docs=DOCS.lstrip("/") if docs_folder() else "",
        repository=repository_url(),
    )


def accuracy_line() -> str:
    """How far off answers are of what was measured, in one line.

    Examples
    --------
    >>> accuracy_line().startswith("Checked against")
    True
    """
    found = errors_by_workload()
    n = sum(found[name].n for name in _MEASURED)
    errors = listed([f"{percent(found[name].median_abs_error, 2)} for {said}" for name, said in _MEASURED.items()])
    held = sorted(found[name].coverage_90 for name in _MEASURED)
    return (
        f"Checked against {n:,} measured times per token, training steps and RL steps, each left out of the fit: the "
        f"typical error is {errors}, and the 90\u00a0% ranges hold {percent(held[0], 2)} to "
        f"{percent(held[-1], 2)} of them"
    )
