"""Names of publishers' variants: the bundled shape, the format that the name states, and a remark that says so."""

from __future__ import annotations

import pytest

from computeledger.errors import InputError, UnknownIdError
from computeledger.facts.load import load_model, model_name
from computeledger.physics.weights import precision_of

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
    ("mlx-community/Qwen3-30B-A3B-4bit", "Qwen/Qwen3-30B-A3B", "mlx-4bit"),
    ("lmstudio-community/Qwen3-8B-MLX-4bit", "Qwen/Qwen3-8B", "mlx-4bit"),
    ("amd/Llama-3.3-70B-Instruct-MXFP4-Preview", "meta-llama/Llama-3.3-70B-Instruct", "mxfp4"),
    ("llama3.1:70b-instruct-q4_K_M", "meta-llama/Meta-Llama-3.1-70B", "q4_k"),
    ("TheBloke/Llama-2-7B-Chat-GGUF", "meta-llama/Llama-2-7b-hf", "bf16"),
    ("unsloth/Llama-3.3-70B-Instruct-unsloth-bnb-4bit", "meta-llama/Llama-3.3-70B-Instruct", "nf4"),
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


@pytest.mark.parametrize(
    "given",
    [
        "hf.co/unsloth/Qwen3-14B-GGUF:Q4_K_M", "qwen3:14b-q4_K_M",
        "https://huggingface.co/unsloth/Qwen3-14B-GGUF/blob/main/Qwen3-14B-Q4_K_M.gguf",
        "https://huggingface.co/unsloth/Qwen3-14B-GGUF/resolve/main/Qwen3-14B-Q4_K_M-00001-of-00002.gguf?download=true",
    ],
)  # fmt: skip
def test_a_name_that_states_a_gguf_file_weighs_what_that_file_does(given: str) -> None:
    named, base = load_model(given), load_model("qwen3-14b")
    assert precision_of(named, None) == precision_of(base, "gguf-q4_k_m")
    assert "gguf-q4_k_m" in named.remarks[0]


def test_an_mlx_checkpoint_of_gpt_oss_is_wider_beside_its_experts() -> None:
    model = load_model("mlx-community/gpt-oss-20b-MXFP4-Q8")
    assert precision_of(model, None) == precision_of(load_model("gpt-oss-20b"), "mlx-mxfp4-q8")


def test_a_wide_gguf_file_of_gpt_oss_keeps_its_experts_in_four_bits() -> None:
    wide = load_model("https://huggingface.co/unsloth/gpt-oss-120b-GGUF/resolve/main/gpt-oss-120b-F16.gguf")
    assert (wide.weight_precision, wide.expert_precision) == ("bf16", "mxfp4")


#: Ways in which people write a model.
SPELLINGS = [
    ("llama 3.1 70b", "meta-llama/Meta-Llama-3.1-70B"), ("llama3.1:70b", "meta-llama/Meta-Llama-3.1-70B"),
    ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Meta-Llama-3.1-70B"),
    ("llama3-70b", "meta-llama/Meta-Llama-3-70B"), ("qwen3:14b", "Qwen/Qwen3-14B"), ("qwen 3 14b", "Qwen/Qwen3-14B"),
    ("ollama/qwen3:14b", "Qwen/Qwen3-14B"), ("https://ollama.com/library/qwen3:14b", "Qwen/Qwen3-14B"),
    ("Qwen3.6 27b", "Qwen/Qwen3.5-27B"), ("qwen3:30b-a3b", "Qwen/Qwen3-30B-A3B"),
    ("gpt-oss:20b", "openai/gpt-oss-20b"), ("gptoss-120b", "openai/gpt-oss-120b"),
    ("deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-R1"), ("deepseek r1", "deepseek-ai/DeepSeek-R1"),
    ("gemma3:27b", "google/gemma-3-27b-it"), ("mixtral:8x7b", "mistralai/Mixtral-8x7B-v0.1"),
    ("phi4", "microsoft/phi-4"), ("https://huggingface.co/Qwen/Qwen3-8B/resolve/main/config.json", "Qwen/Qwen3-8B"),
    ("codellama-34b", "codellama/CodeLlama-34b-Instruct-hf"), ("1.5T-A40B", "1.5T-A40B"), ("70b", "70B"),
    ("1.5t a40b", "1.5T-A40B"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "model_id"), SPELLINGS)
def test_a_model_is_found_however_it_is_spelt(given: str, model_id: str) -> None:
    assert load_model(given).id == model_id


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("70Q", "70B"), ("70", "70B"), ("70GB", "70B"), ("70 billion", "70B"), ("8x7B", "mixtral-8x7b"),
        ("8x22b", "mixtral-8x22b"), ("671B/37B", "671B-A37B"), ("671B (37B active)", "671B-A37B"), ("1.5", "1.5B"),
    ],
)  # fmt: skip
def test_a_size_that_is_none_says_the_form_and_the_nearest_one(given: str, near: str) -> None:
    with pytest.raises(UnknownIdError, match=f"a size is a number with M, B or T.*did you mean '{near}'") as caught:
        load_model(given)
    assert repr(given) in str(caught.value)


@pytest.mark.parametrize("given", ["gpt-4o", "claude", "mistral large 2", "checkpoints/nothing-here"])
def test_a_name_that_resembles_none_says_what_a_model_can_be_given_as(given: str) -> None:
    with pytest.raises(UnknownIdError, match=r"ORG/NAME of a hub, the path of a config\.json.*70B or 1T-A32B"):
        load_model(given)


@pytest.mark.parametrize("given", ["./nothing-here", "../nothing/here", "nothing-here/", "/nothing/here", "~/nothing"])
def test_a_path_that_is_not_there_is_named_as_it_was_given(given: str) -> None:
    with pytest.raises(InputError, match="no such file or folder") as caught:
        load_model(given)
    assert str(caught.value).startswith(given)


def test_a_folder_needs_no_slash(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoints" / "x").mkdir(parents=True)
    config = (
        '{"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2, "head_dim": '
    )
    config += '32, "num_hidden_layers": 2, "num_key_value_heads": 1, "vocab_size": 512, "max_position_embeddings": 64}'
    for folder in ("mine", "checkpoints/x", "qwen3-14b"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "config.json").write_text(config, "utf-8")
    assert {load_model(one).hidden_size for one in ("mine", "./mine", "mine/", "checkpoints/x", "./qwen3-14b")} == {64}
    assert load_model("qwen3-14b").hidden_size == 5120, "a bundled id comes first"


def test_a_four_bit_float_of_a_model_with_experts_is_that_of_the_experts() -> None:
    model = load_model("nvidia/DeepSeek-R1-0528-NVFP4")
    assert (model.weight_precision, model.dense_precision, model.expert_precision) == ("fp8-block", "fp8-block", "fp4")
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
        ("someone/Qwen3-8B-AWQ", "--online fetches it.*'Qwen3-8B-AWQ' alone is answered with a bundled shape"),
        (
            "unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL",
            "says gguf-q4_k_xl.*did you mean 'gguf-q4_k_s'.*A .gguf file itself is read",
        ),
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
