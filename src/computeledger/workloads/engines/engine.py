"""What an engine is to run, what an engine says about itself, and how a command is written over several lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.physics.serving.buffers import LOCAL_BUFFERS, SERVER_BUFFERS, Buffers
from computeledger.workloads.engines.releases import release_numbers
from computeledger.workloads.engines.settings import Setting, settings_of

if TYPE_CHECKING:
    from computeledger.physics.parallelism import Layout
    from computeledger.workloads.engines.flags import Stated, Understood

#: GPUs of the largest host (assumption); replicas beyond it get a word on how to start them.
LARGEST_HOST = 8
#: Formats of 4 bits that engines with files of their own have another file for.
FOUR_BITS = (
    "fp4", "int4", "int4-g64", "int4-g32", "int4-channel", "nf4", "nf4-dq", "w4a8", "fp4-a8", "fp4-a16",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launch:
    """What an engine is to run."""

    model: str
    layout: Layout
    batch: int
    context_tokens: int
    cached: bool
    kv: str
    online_fp8: bool
    role: str
    whole_fraction: float
    static_fraction: float
    cache_fraction: float
    chunk_tokens: int
    weights: str = "bf16"
    n_layers: int = 0
    host_weights: float = 0.0
    host_experts: float = 0.0
    host_kv: float = 0.0
    host_weights_bytes: float = 0.0
    eager: bool = False
    no_prefix_cache: bool = False
    drafts: int = 0
    is_drafted_by_mtp: bool = False
    #: ``eagle``, ``eagle3``, ``ngram`` or ``draft``, and the id of the model that drafts
    draft_method: str = "eagle3"
    draft_model: str = ""
    #: ``tensor`` or ``data``; empty where nobody said
    image_encoder: str = ""
    adapters: int = 0
    max_loras: int = 0
    lora_rank: int = 0

    @property
    def per_rank(self) -> int:
        """Sequences of one attention-DP rank [-]."""
        return math.ceil(self.batch / self.layout.dp)


def any_layout(layout: Layout) -> str | None:  # noqa: ARG001
    """Accept a layout.

    Examples
    --------
    >>> from computeledger.physics.parallelism import Layout
    >>> any_layout(Layout(tp=8)) is None
    True
    """
    return None


@dataclass(frozen=True, slots=True)
class Engine:
    """What the project knows of a serving engine besides its fitted constants.

    Attributes
    ----------
    id : str
        As ``--backend`` and ``--emit`` take it.
    names : tuple of str
        Words by which a publication names it, in lower case.
    publishers : tuple of str
        Who publishes figures with it without naming it, in lower case.
    reads_prompts_first : bool
        Whether all prompts that wait are read before decoding goes on.
    scheduler : str
        Name of its scheduler in simulations.
    has_narrow_cache : bool
        Whether InferenceX's recipes keep the cache in 8 bits where the weights have 8 or 4 (not recorded per row).
    memory_share : str
        What its share of the memory means.
    quantises_on_loading : bool
        Whether it turns bf16 weights into fp8 by itself.
    computes_on_host : bool
        Whether it multiplies on the host what stays in host memory, where that is faster than copying it.
    own_files : str
        What a checkpoint is converted to before it runs, such as a GGUF file; empty where it reads checkpoints.
    default_files : mapping of str to str
        Format of the file that its users download of a checkpoint, by the narrowest format that the checkpoint is
        stored in: those that the engine does not run as such.
    caches : mapping of str to str
        Formats of the KV cache that it has a setting for, and the setting; none for 16 bits.
    makers : tuple of str
        Makers of the chips that it runs on; empty where it runs on most.
    default_on : tuple of str
        Families of chips on which people run it where a question names no engine.
    refusal : callable
        Why it cannot run a layout; None where it can.
    buffers : Buffers
        What it keeps of a chip's memory beside weights and cache.
    buffers_since : mapping of tuple of int to Buffers
        The same by the first release that keeps it so, where releases differ.
    commands : callable or None
        Lines that start a launch; None where it has no launcher here.
    reading : callable or None
        What a launch says in the words of a question; None where its commands are not read.
    """

    id: str
    names: tuple[str, ...] = ()
    publishers: tuple[str, ...] = ()
    reads_prompts_first: bool = False
    scheduler: str = "plain"
    has_narrow_cache: bool = False
    memory_share: str = ""
    quantises_on_loading: bool = True
    computes_on_host: bool = False
    own_files: str = ""
    default_files: Mapping[str, str] = field(default_factory=dict)
    caches: Mapping[str, str] = field(default_factory=lambda: {"bf16": "", "fp8": "fp8"})
    makers: tuple[str, ...] = ()
    default_on: tuple[str, ...] = ()
    buffers: Buffers = SERVER_BUFFERS
    buffers_since: Mapping[tuple[int, ...], Buffers] = field(default_factory=dict)
    refusal: Callable[[Layout], str | None] = any_layout
    commands: Callable[[Launch], list[str]] | None = None
    reading: Callable[[Stated], Understood] | None = None

    @property
    def is_local(self) -> bool:
        """Whether it runs on its user's desk, with small buffers."""
        return self.buffers == LOCAL_BUFFERS

    def buffers_of(self, version: str | None) -> Buffers:
        """What a release keeps of a chip's memory, or a month's; the newest where none is named."""
        numbers = None if version is None else release_numbers(self.id, version)
        if numbers is None or not self.buffers_since:
            return self.buffers
        first = max((one for one in self.buffers_since if one <= numbers), default=min(self.buffers_since))
        return self.buffers_since[first]

    @property
    def settings(self) -> Mapping[str, Setting]:
        """What it can be told when it starts, by the field of a question."""
        return settings_of(self.id)

    @property
    def can_launch(self) -> bool:
        """Whether there is a launcher."""
        return self.commands is not None

    def problem(self, layout: Layout) -> str | None:
        """Say why the engine cannot run a layout.

        Parameters
        ----------
        layout : Layout
            Integer degrees.

        Returns
        -------
        str or None
            One sentence; None where it can.
        """
        ep, stage = int(layout.ep), int(layout.n_gpus_per_stage)
        if ep not in (1, stage):
            return f"the engine spreads experts over all {stage} GPUs of a stage (ep{stage}) or none, not over {ep}"
        return self.refusal(layout)

    def launched(self, launch: Launch) -> list[str]:
        """Write the command for a launch.

        Parameters
        ----------
        launch : Launch
            What it is to run.

        Returns
        -------
        list of str
            Lines of shell, with comments.

        Raises
        ------
        InputError
            No launcher, or a layout that it cannot run.
        """
        if self.commands is None:
            raise InputError(f"--emit {self.id}: no launch command is known for it")
        if problem := self.problem(launch.layout):
            raise InputError(f"--emit {self.id}: layout {launch.layout}: {problem}")
        return self.commands(launch)


def only_tensor_parallel(layout: Layout) -> str | None:
    """Refuse a layout with more than tensor parallelism.

    Examples
    --------
    >>> from computeledger.physics.parallelism import Layout
    >>> only_tensor_parallel(Layout(tp=2, pp=2))
    'its launcher shards tensors over GPUs (tp) and nothing else'
    """
    if layout.n_gpus == layout.tp and layout.ep == 1:
        return None
    return "its launcher shards tensors over GPUs (tp) and nothing else"


def shell(program: str, options: Sequence[str]) -> list[str]:
    r"""Write a command over several lines.

    Examples
    --------
    >>> print("\n".join(shell("vllm serve m", ["--a 1", "--b 2"])))
    vllm serve m \
      --a 1 \
      --b 2
    """
    return [f"{program} \\", *(f"  {one} \\" for one in options[:-1]), f"  {options[-1]}"]


def on_several_hosts(layout: Layout, arguments: str) -> list[str]:
    """Say what a replica over several hosts needs; how many GPUs a host has is not known here.

    Examples
    --------
    >>> from computeledger.physics.parallelism import Layout
    >>> on_several_hosts(Layout(tp=8), "--nnodes")
    []
    """
    if layout.n_gpus <= LARGEST_HOST:
        return []
    return [f"# {layout.n_gpus} GPUs on more than one host: the same command on each, with {arguments}"]
