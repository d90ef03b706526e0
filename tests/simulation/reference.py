"""A serving fleet step by step: no event is skipped, every quantity is counted afresh from what is there.

Slow and short on purpose. Step times are two plain functions of a case, so that nothing is shared with the simulator
but the statement of the problem.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

ROUTINGS = ("round-robin", "random", "least-requests", "least-tokens", "prefix")
SCHEDULERS = ("plain", "vllm", "sglang", "sglang-lpm", "sglang-lof", "sglang-mixed", "trtllm")


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
    has_cache: bool = False
    rank: int = 0
    held: list[int] = field(default_factory=list)
    tokens_at: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Part:
    """One pool of replicas."""

    n_replicas: int
    live: int
    kv: int
    reserve: int
    chunk: int
    ranks: int
    share: float
    decode: tuple[float, float, float]
    read: tuple[float, float, float]
    scheduler: str = "plain"
    conservativeness: float = 1.0
    line: int = 0
    long: int = 0

    def decode_s(self, batch: int, context: int) -> float:
        return self.decode[0] + self.decode[1] * batch + self.decode[2] * context if batch else 0.0

    def read_s(self, tokens: float, start: float) -> float:
        return self.read[0] + self.read[1] * tokens + self.read[2] * start


@dataclass(frozen=True)
class Case:
    """One random problem: a pool, or one that reads prompts and one that writes."""

    sequences: list[Sequence]
    pools: tuple[Part, ...]
    block: int
    routing: str
    handover: tuple[float, float] = (0.0, 0.0)
    shares: tuple[float, ...] = ()


class Replica:
    def __init__(self, case: Case, pool: int) -> None:
        self.part, self.block = case.pools[pool], case.block
        self.hands_over = len(case.pools) > 1 and pool == 0
        self.end_s: float | None = None
        self.waiting: list[Sequence] = []
        self.live: list[Sequence] = []
        self.idle: OrderedDict[int, None] = OrderedDict()
        self.takes: list[tuple[Sequence, int]] = []
        self.stepping: list[Sequence] = []
        self.left: list[Sequence] = []
        self.admissions, self.first_share = 0, 0.7 * self.part.conservativeness
        self.share = self.first_share
        self.is_sglang, self.is_full = self.part.scheduler.startswith("sglang"), False
        self.keeps = (self.is_sglang or self.part.scheduler == "trtllm") and not self.hands_over

    def writing(self) -> list[Sequence]:
        return [one for one in self.live if not one.unread]

    def shared(self) -> set[int]:
        return {block for one in self.live for block in one.held}

    def used(self) -> int:
        """Every live sequence's own tokens, and each shared block once."""
        own = sum(one.prompt + one.written - (not one.unread) - len(one.held) * self.block for one in self.live)
        return own + len(self.shared()) * self.block

    def known(self, one: Sequence) -> list[int]:
        """Blocks at the head of a prompt that are here."""
        shared, found = self.shared(), []
        for block in one.blocks:
            if block not in shared and block not in self.idle:
                break
            found.append(block)
        return found

    def drop(self, one: Sequence) -> None:
        self.live.remove(one)
        self.is_full = False
        for block in reversed(one.held):
            if block not in self.shared():
                self.idle[block] = None
        one.held = []

    def to_write(self, one: Sequence) -> int:
        """What is believed of the rest of an output."""
        left = one.output - one.written
        return left if self.part.scheduler == "trtllm" else min(left, 4096)

    def sort(self) -> None:
        """SGLang: the longest output, or the prompt that is found most, first; of those that begin alike one."""
        if self.part.scheduler == "sglang-lof":
            self.waiting.sort(key=lambda one: (one.rank, -one.output))
        if self.part.scheduler != "sglang-lpm" or not self.block or len(self.waiting) > 128:
            return
        anew, keys = list[Sequence](), dict[int, float]()
        for one in self.waiting:
            found = 0 if one.has_cache else len(self.known(one)[: (one.prompt - 1) // self.block]) * self.block
            keys[id(one)] = -found
            if found <= 32 and not one.has_cache:
                alike = [sum(a == b for a, b in zip(one.blocks, other.blocks, strict=False)) for other in anew]
                if any(n * self.block >= 32 for n in alike):
                    keys[id(one)] = np.inf
                else:
                    anew.append(one)
        self.waiting.sort(key=lambda one: keys[id(one)])

    def budget(self) -> tuple[int, int]:
        """Prompt tokens of a step: of one request, and of all."""
        most = self.part.chunk
        if self.part.scheduler in ("vllm", "trtllm", "sglang-mixed"):
            most = max(most - len(self.writing()) // self.part.ranks, 1)
        return min(most, self.part.long or most), most * self.part.ranks

    def admit(self) -> None:
        part, came = self.part, 0
        share = self.share if self.is_sglang else 1.0
        kept = share * sum(self.to_write(one) for one in self.live) if self.keeps else 0.0
        most, left = self.budget()
        left -= sum(min(one.unread, most) for one in self.live)
        counts = self.is_sglang or part.scheduler == "vllm"
        if self.is_full:
            return
        self.sort()
        while self.waiting and len(self.live) < part.live:
            one = self.waiting[0]
            if counts and left <= 0 and not one.has_cache:
                return
            known, fresh = list[int](), one.prompt + one.written - one.has_cache
            if not one.has_cache:
                known = self.known(one)[: (one.prompt - 1) // self.block if self.block else 0]
                fresh -= sum(block in self.shared() for block in known) * self.block
            beside = kept + came + self.to_write(one) if self.keeps else len(self.writing()) + part.reserve
            if self.live and self.used() + fresh + beside > part.kv:
                self.is_full = self.is_sglang and self.keeps
                return
            came += self.to_write(one)
            self.waiting.pop(0)
            for block in known:
                self.idle.pop(block, None)
            one.held, one.order = known, self.admissions
            self.admissions += 1
            one.start = len(known) * self.block
            one.unread = 0 if one.has_cache else one.prompt + one.written - one.start
            left -= min(one.unread, most)
            self.live.append(one)

    def enqueue(self, one: Sequence, is_first: bool = False) -> None:
        """By class; within it at the end, or at its head."""
        before = sum(other.rank < one.rank or (other.rank == one.rank and not is_first) for other in self.waiting)
        self.waiting.insert(before, one)

    def put_back(self, one: Sequence) -> Sequence:
        self.drop(one)
        one.unread, one.has_cache = 0, False
        return one

    def retract(self) -> None:
        """As SGLang does: those that have written least, behind the line."""
        is_full = False
        while len(self.writing()) > 1 and self.used() + len(self.writing()) > self.part.kv:
            least = min(self.writing(), key=lambda one: (one.written, -one.prompt, -one.order))
            self.enqueue(self.put_back(least))
            is_full = True
        if is_full:
            staying = self.writing()
            written, outputs = (sum(getattr(one, name) for one in staying) for name in ("written", "output"))
            self.share = min((written + 20 * len(staying)) / (outputs + 1), 1.0)

    def begin(self, now: float) -> None:
        """Schedule at a boundary; the step ends at ``end_s``."""
        part, is_full = self.part, False
        if self.is_sglang:
            self.admit()
            if part.scheduler == "sglang-mixed" or not any(one.unread for one in self.live):
                self.retract()
        else:
            while len(self.live) > 1 and self.used() + len(self.writing()) > part.kv:
                self.enqueue(self.put_back(max(self.live, key=lambda one: (one.rank, one.order))), is_first=True)
                is_full = True
            if not is_full:
                self.admit()
        while self.idle and self.used() + len(self.writing()) + len(self.idle) * self.block > part.kv:
            self.idle.popitem(last=False)
        self.stepping, self.takes = self.writing(), []
        most, budget = self.budget()
        for one in sorted((one for one in self.live if one.unread), key=lambda one: one.order):
            self.takes.append((one, min(one.unread, most, budget)))
            budget -= self.takes[-1][1]
        total = sum(take for _, take in self.takes)
        beside = part.share if self.stepping else 1.0
        if self.is_sglang and part.scheduler != "sglang-mixed" and total:
            self.stepping = []
        seconds = part.decode_s(len(self.stepping), sum(one.prompt + one.written - 1 for one in self.stepping))
        if total:
            start = sum(take * one.start for one, take in self.takes) / total
            reading = part.read_s(max(total / part.ranks, *(take for _, take in self.takes)), start)
            seconds += reading * beside
        self.end_s = now + seconds

    def finish(self) -> None:
        """Carry the step out; ``left`` holds what is to be handed over."""
        now, self.end_s = self.end_s or 0.0, None
        for one, take in self.takes:
            one.unread -= take
            one.start += take
            if take and not one.unread:
                for block in one.blocks:
                    if block not in self.shared() and block not in self.idle:
                        one.held.append(block)
                if self.hands_over:
                    self.drop(one)
                    self.left.append(one)
                else:
                    self.token(one, now)
        if self.stepping:
            self.share = max(self.share - self.first_share * 0.86 / 600, self.first_share * 0.14)
        for one in sorted(self.stepping, key=lambda one: one.arrival):
            self.token(one, now)
        if any(one.unread for one in self.live):
            self.is_full = False
        if not self.live and not self.waiting:
            self.share = self.first_share

    def token(self, one: Sequence, now: float) -> None:
        one.written += 1
        one.tokens_at.append(now)
        if one.written == one.output:
            one.written -= 1  # its last token has no entry in the cache
            self.drop(one)
            one.written += 1

    def load(self, routing: str) -> int:
        if routing == "least-tokens":
            return self.used() + sum(one.prompt for one in self.waiting)
        return len(self.live) + len(self.waiting)


def chosen(case: Case, replicas: list[Replica], one: Sequence, turn: tuple[int, float]) -> Replica:
    """The replica that a request is sent to; ``turn`` is its number in the pool and its draw in 0..1."""
    if case.routing == "round-robin":
        return replicas[turn[0] % len(replicas)]
    if case.routing == "random":
        return replicas[int(turn[1] * len(replicas))]
    loads = [replica.load(case.routing) for replica in replicas]
    best = replicas[loads.index(min(loads))]
    if case.routing == "prefix" and case.block and best.hands_over:  # of equal load the one whose memory is emptiest
        best = min(replicas, key=lambda one_: (one_.load("prefix"), one_.used() + len(one_.idle) * case.block))
    if case.routing != "prefix" or not case.block:
        return best
    near = [replica for replica, load in zip(replicas, loads, strict=True) if load <= 1.25 * min(loads) + 4]
    most = max(len(replica.known(one)) for replica in near)
    return best if len(best.known(one)) == most else next(one_ for one_ in near if len(one_.known(one)) == most)


def run(case: Case, draws: np.ndarray, ranks: np.ndarray) -> dict[str, np.ndarray]:
    """Every served request's times and every gap."""
    for one, rank in zip(case.sequences, ranks, strict=True):
        one.rank = int(rank)
    pools = [[Replica(case, place) for _ in range(part.n_replicas)] for place, part in enumerate(case.pools)]
    every = [replica for pool in pools for replica in pool]
    number = {id(one): place for place, one in enumerate(case.sequences)}
    coming = [(one.arrival, 0, place, one) for place, one in enumerate(case.sequences)]
    turns = [0] * len(pools)
    while coming or any(replica.live or replica.waiting for replica in every):
        now = min([replica.end_s for replica in every if replica.end_s is not None] + [one[0] for one in coming])
        for event in sorted(one for one in coming if one[0] <= now):
            coming.remove(event)
            _, pool, _, one = event
            one.has_cache = pool == 1
            to = chosen(case, pools[pool], one, (turns[pool], float(draws[number[id(one)]])))
            turns[pool] += 1
            if pool or not to.part.line or len(to.waiting) < to.part.line:
                to.enqueue(one)
        for replica in every:
            if replica.end_s is not None and replica.end_s <= now:
                replica.finish()
            for one in replica.left:
                moved = now + case.handover[0] + case.handover[1] * one.prompt
                coming.append((moved, 1, number[id(one)], one))
            replica.left = []
        for replica in every:
            if replica.end_s is None and (replica.live or replica.waiting):
                replica.begin(now)
    served = [one for one in case.sequences if one.tokens_at]
    first = np.array([one.tokens_at[0] for one in served])
    last = np.array([one.tokens_at[-1] for one in served])
    more = np.array([one.output - 1 for one in served])
    arrival = np.array([one.arrival for one in served])
    return {
        "ttft_s": first - arrival,
        "end_to_end_s": last - arrival,
        "tpot_s": ((last - first) / np.maximum(more, 1))[more > 0],
        "itl_s": np.concatenate([np.diff(one.tokens_at) for one in served]),
        "end_s": np.array([last.max()]),
        "n_served": np.array([len(served)]),
    }


def _lengths(rng: np.random.Generator, n: int, mean: float, most: int) -> np.ndarray:
    """Equal, uniform, exponential or log-normal."""
    drawn = (
        np.full(n, mean),
        rng.uniform(1, 2 * mean, n),
        rng.exponential(mean, n),
        mean * np.exp(0.8 * rng.standard_normal(n) - 0.32),
    )[int(rng.integers(4))]
    return np.clip(np.rint(drawn), 1, most).astype(int)


def draw(seed: int, most_requests: int = 40) -> Case:
    """A random fleet: bursts, lengths, routing, limits, ranks, shared prefixes; some crowded, some with two pools."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(most_requests // 10, most_requests))
    shape = float(rng.choice([4.0, 1.0, 0.25]))  # of gamma gaps: their spread is 1 over its root
    gap = float(rng.choice([0.02, 0.1, 0.5]))
    arrival = np.cumsum(rng.gamma(shape, gap / shape, n))
    block = int(rng.choice([0, 8, 16]))
    prompts, outputs = _lengths(rng, n, 60.0, 400), _lengths(rng, n, float(rng.choice([2.0, 30.0])), 200)
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

    def part(most_replicas: int) -> Part:
        return Part(
            int(rng.integers(1, most_replicas)), int(rng.integers(1, 10)),
            longest + int(rng.choice([0, 60, 500, 5000])),
            int(rng.choice([0, 10])), int(rng.choice([16, 64, 512])), int(rng.choice([1, 1, 2, 3])),
            float(rng.choice([1.0, 0.8])), (0.01, 1e-3, 2e-5 * float(rng.integers(0, 3))), (5e-3, 2e-4, 1e-5),
            str(rng.choice(SCHEDULERS)), float(rng.choice([1.0, 0.3])),
            int(rng.choice([0, 0, 3])), int(rng.choice([0, 0, 24])),
        )  # fmt: skip

    pools = (part(4), part(4)) if rng.random() < 0.3 else (part(7),)
    routing = str(rng.choice(ROUTINGS))
    shares = ((), (), (0.3, 0.7), (0.2, 0.3, 0.5))[int(rng.integers(4))]
    shares = () if any(one.scheduler == "sglang-lpm" for one in pools) else shares
    return Case(sequences, pools, block, routing, (float(rng.choice([0.0, 0.02])), 1e-5), shares)
