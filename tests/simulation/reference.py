"""A serving fleet step by step: no event is skipped, every quantity is counted afresh from what is there.

Slow and short on purpose. Step times are two plain functions of a case, so that nothing is shared with the simulator
but the statement of the problem.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np


@dataclass(eq=False)
class Sequence:
    arrival: float
    prompt: int
    output: int
    blocks: list[int]
    written: int = 0
    unread: int = 0
    start: int = 0
    order: int = -1
    held: list[int] = field(default_factory=list)
    tokens_at: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """One random problem."""

    sequences: list[Sequence]
    n_replicas: int
    live: int
    kv: int
    reserve: int
    chunk: int
    ranks: int
    block: int
    share: float
    decode: tuple[float, float, float]
    read: tuple[float, float, float]

    def decode_s(self, batch: int, context: int) -> float:
        return self.decode[0] + self.decode[1] * batch + self.decode[2] * context if batch else 0.0

    def read_s(self, tokens: float, start: float) -> float:
        return self.read[0] + self.read[1] * tokens + self.read[2] * start


class Replica:
    def __init__(self, case: Case) -> None:
        self.case, self.free_at = case, 0.0
        self.waiting: list[Sequence] = []
        self.live: list[Sequence] = []
        self.idle: OrderedDict[int, None] = OrderedDict()
        self.admissions = 0

    def writing(self) -> list[Sequence]:
        return [one for one in self.live if not one.unread]

    def shared(self) -> set[int]:
        return {block for one in self.live for block in one.held}

    def used(self) -> int:
        """Every live sequence's own tokens, and each shared block once."""
        own = sum(one.prompt + one.written - (not one.unread) - len(one.held) * self.case.block for one in self.live)
        return own + len(self.shared()) * self.case.block

    def drop(self, one: Sequence) -> None:
        self.live.remove(one)
        for block in reversed(one.held):
            if block not in self.shared():
                self.idle[block] = None
        one.held = []

    def admit(self) -> None:
        case = self.case
        while self.waiting and len(self.live) < case.live:
            one = self.waiting[0]
            known = []
            for block in one.blocks[: (one.prompt - 1) // case.block if case.block else 0]:
                if block not in self.shared() and block not in self.idle:
                    break
                known.append(block)
            fresh = one.prompt + one.written - sum(block in self.shared() for block in known) * case.block
            if self.live and self.used() + fresh + len(self.writing()) + case.reserve > case.kv:
                return
            self.waiting.pop(0)
            for block in known:
                self.idle.pop(block, None)
            one.held, one.order = known, self.admissions
            self.admissions += 1
            one.start = len(known) * case.block
            one.unread = one.prompt + one.written - one.start
            self.live.append(one)

    def step(self, now: float) -> None:
        """Schedule at a boundary and carry the step out."""
        case, is_full = self.case, False
        while len(self.live) > 1 and self.used() + len(self.writing()) > case.kv:
            latest = max(self.live, key=lambda one: one.order)
            self.drop(latest)
            latest.unread = 0
            self.waiting.insert(0, latest)
            is_full = True
        if not is_full:
            self.admit()
        while self.idle and self.used() + len(self.writing()) + len(self.idle) * case.block > case.kv:
            self.idle.popitem(last=False)
        writing = self.writing()
        takes, budget = [], case.chunk * case.ranks
        for one in sorted((one for one in self.live if one.unread), key=lambda one: one.order):
            takes.append((one, min(one.unread, case.chunk, budget)))
            budget -= takes[-1][1]
        total = sum(take for _, take in takes)
        seconds = case.decode_s(len(writing), sum(one.prompt + one.written - 1 for one in writing))
        if total:
            start = sum(take * one.start for one, take in takes) / total
            reading = case.read_s(max(total / case.ranks, *(take for _, take in takes)), start)
            seconds += reading * (case.share if writing else 1.0)
        self.free_at = now + seconds
        for one in writing:
            self.token(one)
        for one, take in takes:
            one.unread -= take
            one.start += take
            if take and not one.unread:
                for block in one.blocks:
                    if block not in self.shared() and block not in self.idle:
                        one.held.append(block)
                self.token(one)

    def token(self, one: Sequence) -> None:
        one.written += 1
        one.tokens_at.append(self.free_at)
        if one.written == one.output:
            one.written -= 1  # its last token has no entry in the cache
            self.drop(one)
            one.written += 1


def run(case: Case) -> dict[str, np.ndarray]:
    """Every request's times and every gap, round-robin over the replicas."""
    replicas = [Replica(case) for _ in range(case.n_replicas)]
    coming = list(case.sequences)
    while coming or any(one.live or one.waiting for one in replicas):
        busy = [one.free_at for one in replicas if one.live or one.waiting]
        now = min([*busy, *([coming[0].arrival] if coming else [])])
        while coming and coming[0].arrival <= now:
            one = replicas[(len(case.sequences) - len(coming)) % case.n_replicas]
            one.free_at = max(one.free_at, coming[0].arrival)
            one.waiting.append(coming.pop(0))
        for one in replicas:
            if (one.live or one.waiting) and one.free_at <= now:
                one.step(now)
    first = np.array([one.tokens_at[0] for one in case.sequences])
    last = np.array([one.tokens_at[-1] for one in case.sequences])
    more = np.array([one.output - 1 for one in case.sequences])
    arrival = np.array([one.arrival for one in case.sequences])
    return {
        "ttft_s": first - arrival,
        "end_to_end_s": last - arrival,
        "tpot_s": ((last - first) / np.maximum(more, 1))[more > 0],
        "itl_s": np.concatenate([np.diff(one.tokens_at) for one in case.sequences]),
        "end_s": np.array([last.max()]),
    }


def draw(seed: int) -> Case:
    """A small random problem: some crowded, some with shared prefixes, some with several ranks."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 40))
    arrival = np.cumsum(rng.exponential(rng.choice([0.02, 0.2, 2.0]), n))
    block = int(rng.choice([0, 8, 16]))
    prompts, outputs = rng.integers(1, 120, n), rng.integers(1, rng.choice([4, 60]), n)
    families = rng.integers(0, 4, n)
    sequences: list[Sequence] = []
    for at, prompt, output, family in zip(arrival, prompts, outputs, families, strict=True):
        full = int(prompt) // block if block else 0
        common = min(full, int(rng.integers(0, 6)))
        own = [int(1000 * (len(sequences) + 1) + place) for place in range(full - common)]
        sequences.append(
            Sequence(float(at), int(prompt), int(output), [100 * int(family) + p for p in range(common)] + own)
        )
    longest = int((prompts + outputs).max())
    return Case(
        sequences, int(rng.integers(1, 4)), int(rng.integers(1, 10)), longest + int(rng.choice([0, 60, 500, 5000])),
        int(rng.choice([0, 10])), int(rng.choice([16, 64, 512])), int(rng.choice([1, 1, 2, 3])), block,
        float(rng.choice([1.0, 0.8])), (0.01, 1e-3, 2e-5 * float(rng.integers(0, 3))), (5e-3, 2e-4, 1e-5),
    )  # fmt: skip
