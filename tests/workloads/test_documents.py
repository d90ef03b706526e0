"""Documents of unequal lengths: attention within each, padding, and who waits for whom; the slowest of many ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.physics.training.documents import expected_largest
from computeledger.workloads.pretraining.documents import read_documents

ASKED = {
    "model": "llama-3.1-8b", "system": "64xh100", "layout": "tp2-cp4-dp8", "tokens": "1B", "samples": "16",
    "sequence_tokens": "32768", "global_batch_tokens": "4M", "recompute": "selective", "microbatch_sequences": "1",
}  # fmt: skip


def lengths(folder: Path, *tokens: int) -> str:
    path = folder / "lengths.txt"
    path.write_text("\n".join(map(str, tokens)), "utf-8")
    return str(path)


def test_one_document_in_each_sequence_is_as_without_documents(tmp_path: Path) -> None:
    plain, same, joined = (
        cl.pretrain(**ASKED, **given).result
        for given in ({}, {"documents": lengths(tmp_path, 32768)}, {"documents": "p50=1K,p95=4K", "packing": "joined"})
    )
    for one in (same, joined):
        assert one.step_s == pytest.approx(plain.step_s) and one.mfu_fraction == pytest.approx(plain.mfu_fraction)


def test_attention_follows_the_mean_square_of_the_lengths(tmp_path: Path) -> None:
    mixed = read_documents(lengths(tmp_path, 100, 300), "masked", 1_000_000.0)
    assert mixed.attended_tokens == pytest.approx((100**2 + 300**2) / (100 + 300), rel=0.01)
    plain, short = (cl.pretrain(**ASKED, **given).result for given in ({}, {"documents": lengths(tmp_path, 4096)}))
    work = [float(np.median(one.components_s["attention"])) for one in (plain, short)]
    assert work[1] == pytest.approx(work[0] / 8, rel=1e-3)  # 4,096 divides 32,768, and all ranks have as many
    assert np.median(short.flop_per_token) < np.median(plain.flop_per_token)


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_busiest_rank_is_that_of_the_pairs_of_queries_and_keys(tmp_path: Path, ranks: int) -> None:
    """Counted query by query, each rank with a chunk from either end."""
    found = read_documents(lengths(tmp_path, 700, 90, 1300), "masked", 2048.0)
    drawn = np.random.default_rng(0).choice(np.array([700.0, 90.0, 1300.0]), 200_000)
    ends = np.cumsum(drawn)
    ends = ends[ends < 512 * 2048]
    begins = np.unique(np.concatenate([[0.0], ends, 2048.0 * np.arange(512)]))
    at = np.arange(512 * 2048)
    keys = at + 0.5 - begins[np.searchsorted(begins, at, side="right") - 1]
    chunks = keys.reshape(512, 2 * ranks, -1).sum(axis=2)
    each = chunks[:, :ranks] + chunks[:, ::-1][:, :ranks]
    assert found.rank_ratios[int(np.log2(ranks))] == pytest.approx(float(np.mean(each.max(1) / each.mean(1))), rel=1e-3)


def test_padding_takes_time_and_is_no_token(tmp_path: Path) -> None:
    text = lengths(tmp_path, 8192)
    packed, padded = (cl.pretrain(**ASKED, documents=text, packing=one).result for one in ("masked", "padded"))
    assert padded.scenario.batch.useful_fraction == 0.25
    assert np.median(padded.tokens_per_s_per_gpu) < 0.25 * np.median(packed.tokens_per_s_per_gpu)
    assert np.median(padded.gpu_hours) > 4 * np.median(packed.gpu_hours)
    assert padded.flop_per_token == packed.flop_per_token


def test_uneven_documents_make_ranks_wait() -> None:
    """WLB-LLM (arXiv 2503.17924): 405B, sequences of 128K, the slowest of 8K GPUs 1.44 times as long as the fastest.

    More than three quarters of the tokens are of documents shorter than half a sequence, as there; balancing gained
    1.23 on average.
    """
    given = {
        "model": "llama-3.1-405b", "system": "h100-nvl8", "layout": "tp8-cp16-pp16-dp4", "sequence_tokens": "131072",
        "global_batch_tokens": "8M", "microbatch_sequences": "1", "recompute": "none", "tokens": "1B", "samples": "16",
        "virtual_stages": "4", "documents": "p50=1500,p95=20000,longest=131072",
    }  # fmt: skip
    answer = cl.pretrain(**given)
    documents = answer.to_dict()["documents"]
    attention = float(np.median(answer.result.components_s["attention"]))
    idle = attention * (1 - 1 / documents["attention_ratio"])
    rest = float(np.median(answer.result.step.microbatch_s * answer.result.step.microbatches))
    assert 1.15 < rest / (rest - idle) < 1.35
    assert any("the slowest rank's attention takes" in one for one in answer.view().notes)


@pytest.mark.parametrize("n", [2, 100, 5000])
def test_the_slowest_of_many_is_an_order_statistic(n: int) -> None:
    drawn = np.random.default_rng(1).standard_normal((2000, n)).max(axis=1)
    assert float(expected_largest(n)) == pytest.approx(float(drawn.mean()), rel=0.05, abs=0.05)


def test_jitter_of_one_gpu_slows_a_larger_job_more() -> None:
    few, many = (
        cl.pretrain(**{**ASKED, "system": f"{n}xh100", "layout": "tp2", "global_batch_tokens": "32M"}, gpus=n,
                    step_jitter="1%").run.goodput.straggler_fraction
        for n in (64, 1024)
    )  # fmt: skip
    assert 0.02 < float(np.median(few)) < float(np.median(many)) < 0.04


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"documents": "p50=800"}, "needs p50 and p95"),
        ({"documents": "p50=800,p95=80"}, "must rise"),
        ({"documents": "nowhere.txt"}, "write p50=800,p95=8K"),
        ({"packing": "masked"}, "packing needs .*documents"),
        ({"step_jitter": "1%", "stragglers": "2%"}, "give one of them"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cl.pretrain(**ASKED, **given)
