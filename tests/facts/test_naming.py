"""Names of publishers' variants: the bundled shape, the format that the name states, and a remark that says so."""

from __future__ import annotations

import pytest

from computeledger.errors import UnknownIdError
from computeledger.facts.load import load_model, model_name

VARIANTS = [
    ("unsloth/Qwen3-8B", "Qwen/Qwen3-8B", "bf16"),
    ("unsloth/Qwen3-8B-GGUF", "Qwen/Qwen3-8B", "bf16"),
    ("bartowski/Qwen_Qwen3-8B-GGUF", "Qwen/Qwen3-8B", "bf16"),
    ("Qwen/Qwen3-14B-AWQ", "Qwen/Qwen3-14B", "int4"),
    ("qwen3-14b-awq", "Qwen/Qwen3-14B", "int4"),
    ("Qwen/Qwen3-14B-FP8", "Qwen/Qwen3-14B", "fp8"),
    ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-72B-Instruct", "int4"),
    ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8", "Qwen/Qwen2.5-72B-Instruct", "w8a16"),
    ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", "meta-llama/Meta-Llama-3.1-70B", "int4"),
    ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "meta-llama/Meta-Llama-3.1-8B", "int4"),
    ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "meta-llama/Meta-Llama-3.1-8B", "int8"),
    ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "meta-llama/Meta-Llama-3.1-8B", "fp8"),
    ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", "meta-llama/Meta-Llama-3.1-8B", "fp8"),
    ("nvidia/Llama-3.3-70B-Instruct-FP4", "meta-llama/Llama-3.3-70B-Instruct", "fp4"),
    ("mlx-community/Qwen3-30B-A3B-4bit", "Qwen/Qwen3-30B-A3B", "int4-g64"),
    ("lmstudio-community/Qwen3-8B-MLX-4bit", "Qwen/Qwen3-8B", "int4-g64"),
    ("unsloth/Llama-3.3-70B-Instruct-unsloth-bnb-4bit", "meta-llama/Llama-3.3-70B-Instruct", "int4-g64"),
    ("unsloth/Qwen3-8B-GGUF:Q4_K_M", "Qwen/Qwen3-8B", "q4_k"),
    ("bartowski/Qwen_Qwen3-8B-Q8_0-GGUF", "Qwen/Qwen3-8B", "q8_0"),
    ("LLM-Research/Meta-Llama-3.1-8B-Instruct", "meta-llama/Meta-Llama-3.1-8B", "bf16"),
]


@pytest.mark.parametrize(("given", "of", "precision"), VARIANTS)
def test_a_variant_is_the_bundled_shape_in_the_format_of_its_name(given: str, of: str, precision: str) -> None:
    model, base = load_model(given), load_model(of)
    assert (model.id, model.layers, model.dense_precision) == (given, base.layers, precision)
    (remark,) = model.remarks
    assert remark.startswith(f"{given}: its own configuration was not read")
    assert of in remark
    assert precision in remark or "its precision" in remark


def test_a_four_bit_float_of_a_model_with_experts_is_that_of_the_experts() -> None:
    model = load_model("nvidia/DeepSeek-R1-0528-NVFP4")
    assert (model.weight_precision, model.dense_precision, model.expert_precision) == ("fp8", "fp8", "fp4")
    assert "(assumption)" in model.remarks[0]


@pytest.mark.parametrize(
    "given",
    [
        "https://huggingface.co/zai-org/GLM-5", "https://huggingface.co/zai-org/GLM-5/tree/main", "hf.co/zai-org/GLM-5",
        "https://huggingface.co/zai-org/GLM-5/blob/main/config.json?x=1", "https://www.modelscope.cn/models/ZhipuAI/GLM-5",
        "zhipuai/GLM-5", "ZhipuAI/glm-5", " zai-org/GLM-5 ",
    ],
)  # fmt: skip
def test_an_address_and_a_mirror_are_the_model_itself(given: str) -> None:
    assert load_model(given) is load_model("zai-org/GLM-5")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("someone/Qwen3-8B-AWQ", "--online fetches it"),
        ("https://huggingface.co/foo/Bar", "--online fetches it"),
        ("https://huggingface.co/datasets", "names no ORG/NAME"),
        ("https://example.org/zai-org/GLM-5", "an address of huggingface.co or modelscope.cn"),
        ("unsloth/Qwen3", "did you mean|could mean"),
        ("qwen3", "could mean .*: give the exact id"),
    ],
)
def test_a_name_that_means_nothing_says_how_to_give_it(given: str, told: str) -> None:
    with pytest.raises(UnknownIdError, match=told):
        load_model(given)


def test_a_page_takes_names_and_numbers_and_no_files(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text("{}", "utf-8")
    assert [model_name(text) for text in ("deepseek-v3", "100b-a10b", "Qwen/Qwen3-14B-AWQ")] == [
        "deepseek-ai/DeepSeek-V3", "100B-A10B", "Qwen/Qwen3-14B-AWQ",
    ]  # fmt: skip
    with pytest.raises(UnknownIdError):
        model_name("./mine.json")
