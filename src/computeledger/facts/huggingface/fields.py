"""Reading a configuration's fields: typed, checked, and none left that could matter and was not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.errors import ModelConfigError

#: More layers than any model has; a larger number is a slip, and would fill the memory.
MAX_LAYERS = 10_000

#: Fields that change neither the parameters nor the work nor the cache of the language model.
IRRELEVANT = frozenset({
    # names, versions, where the code lives
    "_attn_implementation", "_attn_implementation_internal", "_commit_hash", "_name_or_path", "_experts_implementation",
    "_flash_attn_2_enabled", "architectures", "auto_map", "custom_pipelines", "finetuning_task", "id2label", "label2id",
    "model_type", "name_or_path", "num_labels", "problem_type", "task_specific_params", "tokenizer_class",
    "tokenizer_type", "torchscript", "transformers_version", "transformers.js_config", "unsloth_fixed",
    "unsloth_version", "vllm_version",
    # tokens and text
    "bad_words_ids", "begin_suppress_tokens", "ignore_index", "image_placeholder", "pad_token", "prefix",
    "suppress_tokens", "video_placeholder",
    # generation
    "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "generation_config", "is_decoder", "is_encoder_decoder", "length_penalty",
    "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_logits_to_keep",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_router_logits", "output_scores",
    "remove_invalid_values", "repetition_penalty", "return_dict", "return_dict_in_generate", "temperature", "top_k",
    "top_p", "typical_p", "use_cache", "cache_implementation", "forced_bos_token_id",
    # training only
    "attention_dropout", "aux_loss_alpha", "classifier_dropout", "ep_size", "hidden_dropout", "initializer_factor",
    "initializer_range", "layerdrop", "pretraining_tp", "rescale_prenorm_residual", "router_aux_loss_coef",
    "router_jitter_noise", "seq_aux", "init_std", "dropout", "gradient_checkpointing",
    # numbers that scale values but no shapes
    "activation_situ_beta", "activation_situ_linear_beta", "attention_multiplier", "attention_value_scale",
    "attn_logit_softcapping", "attn_scale", "attn_temperature_tuning", "cohere_scale", "embedding_multiplier",
    "final_logit_softcapping", "floor_scale", "layernorm_full_attention_alpha", "layernorm_full_attention_beta",
    "layernorm_linear_attention_alpha", "layernorm_linear_attention_beta", "layernorm_mlp_alpha", "layernorm_mlp_beta",
    "logit_scale", "logits_scaling", "moe_router_scaling_factor", "query_pre_attn_scalar", "residual_in_fp32",
    "residual_multiplier", "routed_scaling_factor", "scale_depth", "swiglu_alpha", "swiglu_limit", "swiglu_limits",
    "swiglu_limits_shared", "time_step_floor", "time_step_limit", "time_step_max", "time_step_min", "time_step_rank",
    # how experts are chosen, not how many
    "moe_renormalize", "moe_router_activation_func", "moe_router_dtype", "moe_router_topk_scaling_factor", "n_group",
    "norm_topk_prob", "num_expert_group", "scoring_func", "shared_moe_mode", "topk_group", "topk_method",
    "need_fp32_gate", "use_grouped_topk", "use_moe_router_bias", "use_routing_bias",
    # activations and norms
    "activation", "activation_function", "hidden_act", "hidden_activation", "latent_moe_use_norm", "mamba_hidden_act",
    "mlp_hidden_act", "postnorm", "use_gemma_norm", "zero_centered",
    # positions
    "alibi", "compress_rope_theta", "global_rope_theta", "indexer_rope_interleave", "initial_context_length",
    "local_rope_theta", "max_position_embeddings", "max_sequence_length", "mla_use_nope", "model_max_length",
    "mrope_section", "n_positions", "no_rope_layers", "original_max_position_embeddings", "partial_rotary_factor",
    "partial_rotary_factors", "rotary_dim", "rotary_emb_base", "rotary_pct", "seq_length", "swa_rope_theta",
    "use_mrope", "nope_layer_interval", "use_rope_layers", "use_rope",
    # kernels
    "chunk_size", "chunk_size_feed_forward", "hc_sinkhorn_iters", "mamba_chunk_size", "moe_shared_expert_overlap",
    "use_mamba_kernels", "use_flash_attention", "use_flash_attn", "use_bfloat16", "attn_implementation", "fp32_router",
    # an encoder or classifier that a language model does not have
    "add_cross_attention", "cross_attention_hidden_size", "pruned_heads", "tie_encoder_decoder", "tf_legacy_loss",
    "use_bidirectional_attention", "num_reward_heads",
    # multi-token prediction beyond its depth
    "index_share_for_mtp_iteration", "mtp_hybrid_override_pattern", "mtp_layers_block_type",
    "mtp_transformer_layers", "mtp_use_dedicated_embeddings", "use_mtp", "mtp_loss_scaling_factor",
    # images, video and sound beyond their encoders
    "audio_config", "boa_token_index", "image_grid_pinpoints", "image_seq_length", "img_token_compression_config",
    "multimodal_projector_bias", "process_image_mode", "projection_dim", "projector_hidden_act",
    "projector_hidden_size", "use_unified_vision_chunk", "vision_feature_layer", "vision_feature_select_strategy",
    "vision_segment_max_frames", "vision_soft_tokens_per_image", "mm_tokens_per_image",
    "spatial_merge_size", "downsample_ratio",
})  # fmt: skip

#: Endings and beginnings of irrelevant fields: token ids, dropout, the smallest norm, rotary positions.
IRRELEVANT_ENDINGS = ("_token_id", "_token_ids", "_token_index", "_dropout", "_eps", "_epsilon", "_pdrop", "_std")
IRRELEVANT_BEGINNINGS = ("rope_", "yarn_", "router_z_", "freeze_")

#: Words in the name of a text field that make it an architecture's switch.
_ARCHITECTURE_WORDS = ("attention", "attn", "block", "expert", "layer", "mlp", "moe", "pattern", "mixer")


class Fields:
    """The fields of a configuration, and which of them were read."""

    def __init__(self, values: Mapping[str, Any], path: str = "", family: str = "model") -> None:
        self._values, self._path, self._family = values, path, family
        self._read: set[str] = set()
        self._tables: list[Fields] = []

    def error(self, name: str, text: str) -> ModelConfigError:
        """Build the error about one field, in one line."""
        return ModelConfigError(f"{self._path}{name}: {text}")

    def missing(self, name: str) -> ModelConfigError:
        """Build the error about a field that is not there."""
        return self.error(name, f"missing; a {self._family} configuration needs it")

    def has(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self._values.get(name) is not None

    def ignore(self, *names: str) -> None:
        """Mark fields as known and of no consequence for this family."""
        self._read.update(names)

    def value(self, name: str) -> Any:
        """The raw value of a field."""
        self._read.add(name)
        return self._values.get(name)

    def optional_integer(self, *names: str, minimum: int = 1) -> int | None:
        """An integer under any of its names."""
        found = {name: self._checked_integer(name, minimum) for name in names if self.value(name) is not None}
        if len(set(found.values())) > 1:
            told = ", ".join(f"{name} = {value}" for name, value in found.items())
            raise self.error(next(iter(found)), f"contradictory names of one quantity: {told}")
        return next(iter(found.values()), None)

    def integer(self, *names: str, default: int | None = None, minimum: int = 1) -> int:
        """An integer under any of its names; an error where it is missing and has no default."""
        found = self.optional_integer(*names, minimum=minimum)
        if found is not None:
            return found
        if default is None:
            raise self.missing(names[0])
        return default

    def _checked_integer(self, name: str, minimum: int) -> int:
        value = self._values[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(name, f"{value!r} is not an integer")
        if value < minimum:
            raise self.error(name, f"{value} is not allowed; at least {minimum} is")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """A field that is true or false."""
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, f"{value!r} is not true or false")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A text; an error where it is missing and has no default."""
        value = self.value(name)
        if value is None:
            if default is None:
                raise self.missing(name)
            return default
        if not isinstance(value, str):
            raise self.error(name, f"{value!r} is not a text")
        return value

    def sequence(self, name: str, length: int | None = None) -> list[Any]:
        """A list, one entry per layer where a length is given; further entries belong to prediction modules."""
        value = self.value(name)
        if value is None:
            raise self.missing(name)
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self.error(name, f"{value!r} is not a list")
        if length is not None and len(value) < length:
            raise self.error(name, f"{len(value)} entries for {length} layers")
        return list(value if length is None else value[:length])

    def integers(self, name: str, length: int | None = None) -> list[int]:
        """A list of integers that are not negative."""
        values = self.sequence(name, length)
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise self.error(name, f"{value!r} in the list is not an integer of at least 0")
        return values

    def choices(self, name: str, allowed: Mapping[str, Any], length: int | None = None) -> list[str]:
        """A list of texts, each one of those allowed."""
        values = self.sequence(name, length)
        for value in values:
            if not isinstance(value, str) or value not in allowed:
                raise self.error(name, f"{value!r} is not understood; allowed: {', '.join(sorted(allowed))}")
        return values

    def table(self, name: str) -> Fields | None:
        """A nested object, whose own fields must be read too."""
        value = self.value(name)
        if value is None:
            return None
        return self.nested(name, value)

    def nested(self, name: str, value: object) -> Fields:
        """An object inside a list or another object, whose own fields must be read too."""
        if not isinstance(value, Mapping):
            raise self.error(name, f"{value!r} is not an object")
        inner = Fields(value, f"{self._path}{name}.", self._family)
        self._tables.append(inner)
        return inner

    def refuse_unread(self) -> None:
        """Raise for the first field that was not read and could matter."""
        for name, value in self._values.items():
            if name not in self._read and _could_matter(name, value):
                shown = repr(value) if len(repr(value)) <= 40 else f"{type(value).__name__} of {len(value)}"
                raise self.error(
                    name, f"{shown} is not understood in a {self._family} configuration, and may change its shape"
                )
        for inner in self._tables:
            inner.refuse_unread()


def _could_matter(name: str, value: object) -> bool:
    """Null, false, zero and empty switch nothing on; a text matters where its name speaks of the architecture."""
    if name in IRRELEVANT or name.endswith(IRRELEVANT_ENDINGS) or name.startswith(IRRELEVANT_BEGINNINGS):
        return False
    if isinstance(value, str):
        return bool(value) and any(word in name for word in _ARCHITECTURE_WORDS)
    return bool(value)
