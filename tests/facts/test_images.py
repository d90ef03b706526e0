"""Images become as many patches and tokens as the families' own processors make of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from computeledger.errors import InputError
from computeledger.facts.architecture import VisionEncoder
from computeledger.facts.huggingface import parse_config
from computeledger.facts.images import count_image, image_rule, read_size
from computeledger.facts.load import load_model

SIZES = ((1920, 1080), (1024, 768), (224, 224), (3000, 400))
#: Patches and tokens at those sizes, of functions of transformers 5.23.0 run on them: smart_resize (models/qwen2_vl,
#: with the limits of each checkpoint), navit_resize (kimi_k25), get_aspect_ratio_preserving_size (gemma4), get_best_fit
#: with _prompt_split_image (llama4), get_resize_output_image_size (pixtral), get_optimal_tiled_canvas (got_ocr2).
PROCESSORS = {
    "qwen2.5-vl-7b-instruct": ((10764, 2693), (3996, 1001), (256, 66), (5992, 1500)),
    "qwen3-vl-32b-instruct": ((8160, 2042), (3072, 770), (256, 66), (4512, 1130)),
    "nvidia/MiniMax-M3-NVFP4": ((2304, 578), (2160, 542), (256, 66), (2080, 522)),
    "kimi-k2.5": ((10764, 2694), (4144, 1039), (256, 67), (6480, 1623)),
    "google/gemma-4-26B-A4B": ((2376, 266), (2394, 268), (2304, 258), (2430, 272)),
    "llama-4-scout": ((9216, 2322), (7488, 1887), (576, 147), (9792, 2467)),
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": ((6820, 1736), (4144, 1064), (256, 72), (1760, 448)),
    "google/gemma-3-27b-it": ((4096, 258),) * 4,
}
INTERNVL = ((9216, 2306), (13312, 3330), (1024, 258), (9216, 2306))


@pytest.mark.parametrize("model", PROCESSORS)
def test_images_are_cut_as_the_familys_own_processor_cuts_them(model: str) -> None:
    found = [count_image(load_model(model), size) for size in SIZES]
    assert [(one.patches, one.tokens) for one in found] == list(PROCESSORS[model])


def test_classes_of_configurations_are_read_with_their_encoders() -> None:
    # LlavaConfig() and LlavaConfig(vision_config=PixtralVisionConfig()) of transformers 5.23.0, the encoders' parts
    text = {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 32, "vocab_size": 32000, "model_type": "llama"}  # fmt: skip
    clip = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "image_size": 336,
            "patch_size": 14, "model_type": "clip_vision_model"}  # fmt: skip
    pixtral = {**clip, "image_size": 1024, "patch_size": 16, "model_type": "pixtral"}
    outer = {"model_type": "llava", "text_config": text, "image_seq_length": 576}
    found = [parse_config({**outer, "vision_config": one}, "test") for one in (clip, pixtral)]
    assert [count_image(one, (1024, 768)).tokens for one in found] == [576, 48 * (64 + 1)]


def test_tiles_of_the_nearest_ratio_with_a_thumbnail() -> None:
    vision = VisionEncoder(1, 1, family="internvl", patch_pixels=14, merged_side=2, image_pixels=448)
    model = replace(load_model("qwen3-8b"), vision=vision)
    assert [(one.patches, one.tokens) for one in (count_image(model, size) for size in SIZES)] == list(INTERNVL)


def test_published_counts_of_tokens_and_parameters() -> None:
    # vLLM issue 41267: a prompt with one image of 1080p has 2,718 tokens, 27 of which are text and marks
    assert count_image(load_model("qwen2.5-vl-7b-instruct"), (1920, 1080)).tokens - 2 == 69 * 39
    # Gemma 3 Technical Report, Table 1: vision encoder of 417M; Llama 4 Scout: sums of the tensors of its checkpoint
    vision = {name: load_model(name).vision for name in ("google/gemma-3-27b-it", "llama-4-scout")}
    assert [round(one.n_params / 1e6) for one in vision.values() if one] == [418, 870]
    # Qwen2.5-VL read me: between 4 and 16,384 visual tokens
    model = load_model("qwen2.5-vl-7b-instruct")
    assert [count_image(model, (side, side)).tokens - 2 for side in (14, 3584)] == [4, 128 * 128]


def test_models_and_sizes_that_cannot_be_read_are_refused_in_one_line() -> None:
    with pytest.raises(InputError, match=r"qwen.*|Qwen/Qwen3-8B reads text only"):
        image_rule(load_model("qwen3-8b"))
    with pytest.raises(InputError, match="--images: of what size"):
        count_image(load_model("qwen3-vl-32b-instruct"), None)
    for text in ("1024", "0x5", "axb", "1000000x4", "4000x10"):
        with pytest.raises(InputError, match="--image-size"):
            read_size(text)
