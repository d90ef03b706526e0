"""ATOM: no constants of its own; that it reads prompts first is inferred from its times."""

from __future__ import annotations

from computeledger.workloads.engines.engine import Engine

ENGINE = Engine("atom", reads_prompts_first=True)
