"""Facts on the command line: show, search, compare, cite and the cost of a GPU-hour."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import computeledger as cl
from computeledger.facts.load import accelerator_ids
from computeledger.interfaces.cli import main
from computeledger.questions.answers.facts import searched_facts, show_facts


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    out = capsys.readouterr()
    return int(stop.value.code or 0), out.out, out.err


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    document: dict[str, Any] = json.loads(out)
    return document


COST = ("cost", "--system", "h100-nvl8")
MISTAKES = {
    "no subject": (("cost",), "--system ID, or --accelerator ID"),
    "two subjects": ((*COST, "--accelerator", "h100-sxm5-80gb"), "--system ID, or --accelerator ID"),
    "unknown system": (("cost", "--system", "h100-nvl9"), "h100-nvl8"),
    "unknown kind": ((*COST, "--kind", "lease"), "lease"),
    "no occupancy": ((*COST, "--occupancy", "0"), "must be greater than 0"),
    "too much occupancy": ((*COST, "--occupancy", "120%"), "0..1"),
    "no life": ((*COST, "--life", "0 years"), "must be greater than 0"),
    "a price in watts": ((*COST, "--electricity", "8 W"), "8 W"),
    "a unit of something else": ((*COST, "--capex", "$2/h"), "$2/h"),
    "no such price": (("cost", "--accelerator", "l40s", "--kind", "reserve"), "no reserve price of l40s"),
    "diff of two kinds": (("facts", "diff", "h100-nvl8", "h100-sxm5-80gb"), "of another kind"),
    "diff with a source": (("facts", "diff", "aiconfigurator", "2026-11"), "is a source"),
    "diff with nothing": (("facts", "diff", "h100-sxm5-80gb", "h101"), "h101"),
    "diff with no file": (("facts", "diff", "h100-sxm5-80gb", "nothing.toml"), "no such file"),
    "show an unknown edition": (("facts", "show", "2026-12"), "2026-11"),
    "cite an unknown source": (("cite", "epoch-model"), "epoch-models"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_and_exit_2(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, said = MISTAKES[case]
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err


def test_cost_contract(capsys: pytest.CaptureFixture[str]) -> None:
    cost = answer(capsys, *COST)
    assert set(cost) == {
        "schema", "accelerator", "system", "kinds", "missing", "energy_j_per_gpu_hour", "carbon_kg_per_gpu_hour",
        "editions", "sources",
    }  # fmt: skip
    assert (cost["accelerator"], cost["system"], cost["missing"]) == ("h100-sxm5-80gb", "h100-nvl8", {})
    own = cost["kinds"]["own"]
    assert set(own["components"]) == {"capital", "electricity", "operation", "idle"}
    assert own["usd_per_gpu_hour"]["p05"] < own["usd_per_gpu_hour"]["p50"] < own["usd_per_gpu_hour"]["p95"]
    assert cost["energy_j_per_gpu_hour"]["p50"] == pytest.approx(1.65 * 3.6e6, rel=0.1)
    assert {"inferencex-constants", "epoch-data-centers"} <= set(cost["sources"])


def test_stated_inputs_replace_the_editions(capsys: pytest.CaptureFixture[str]) -> None:
    stated = ("--capex", "30 k$", "--life", "4 years", "--cost-of-capital", "0%", "--occupancy", "100%")
    cost = answer(capsys, *COST, "--kind", "own", *stated, "--operation", "$0/year", "--electricity", "$0.1/kWh")
    parts = cost["kinds"]["own"]["components"]
    assert list(cost["kinds"]) == ["own"]
    assert parts["capital"] == pytest.approx(30_000 / 4 / 8766)
    assert (parts["operation"], parts["idle"]) == (0, 0)


def test_same_seed_same_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, *COST, "--seed", "3") == answer(capsys, *COST, "--seed", "3")
    assert answer(capsys, *COST, "--seed", "3") != answer(capsys, *COST, "--seed", "4")


def test_editions_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    diff = answer(capsys, "facts", "diff", "2025-03", "2026-11")
    found = {one["name"]: one for one in diff["differences"]}
    rent = found["prices.usd_per_gpu_hour.h100-sxm5-80gb.rent"]
    assert (rent["a"]["given"], rent["b"]["given"]) == ("2.99 $/GPU-h", "2.95 $/GPU-h")
    assert rent["ratio"] == pytest.approx(2.95 / 2.99)
    assert rent["a"]["source"] == "epoch-hardware-prices"
    back = answer(capsys, "facts", "diff", "2026-11", "2025-03")
    assert len(back["differences"]) == len(diff["differences"])
    assert answer(capsys, "facts", "diff", "2026-11", "2026-11")["differences"] == []


def test_records_and_models_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    chips = answer(capsys, "facts", "diff", "h100-sxm5-80gb", "h200-sxm5-141gb")
    both = [one for one in chips["differences"] if one["ratio"] is not None]
    assert {one["name"] for one in chips["differences"] if one not in both} == {"usable_hbm_bytes"}
    changed = {one["name"]: one["ratio"] for one in both if abs(one["ratio"] - 1) > 0.01}
    assert changed == pytest.approx({"hbm_bytes": 141 / 80, "hbm_bytes_per_s": 4.8 / 3.35}, rel=0.01)
    models = answer(capsys, "facts", "diff", "deepseek-ai/DeepSeek-V3.1", "nvidia/DeepSeek-V3.1-NVFP4")
    found = {one["name"]: one for one in models["differences"]}
    assert found["counted.expert_precision"]["b"]["value"] == "fp4"
    assert "counted.n_params_total" not in found


def test_a_users_file_is_compared_with_what_ships(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('like = "2026-11"\n[usd_per_gpu_hour.h100-sxm5-80gb]\nrent = "$1.80/h"\n', "utf-8")
    diff = answer(capsys, "facts", "diff", "2026-11", str(mine))
    assert [one["name"] for one in diff["differences"]] == ["prices.usd_per_gpu_hour.h100-sxm5-80gb.rent"]
    assert diff["differences"][0]["b"]["source"] == "user"


@pytest.mark.parametrize(
    ("query", "name"),
    [("ddr5 capacity", "tiers.ddr5-socket.capacity_bytes"), ("carbon", "ownership.carbon_kg_per_kwh"),
     ("h100 rent", "prices.usd_per_gpu_hour.h100-sxm5-80gb.rent"), ("gb200 purchase", "gb200")],
)  # fmt: skip
def test_a_search_finds_editions(query: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    results = answer(capsys, "facts", "search", query)["results"]
    assert any(name in one["name"] for one in results)
    assert all({"value", "unit", "source", "date", "locator"} <= set(one) for one in results)


@pytest.mark.parametrize(
    "arguments",
    [COST, (*COST, "--working"), ("cost", "--accelerator", "l40s"), ("facts", "show", "2026-11"),
     ("facts", "diff", "2025-03", "2026-11"), ("facts", "diff", "h100-nvl8", "h200-nvl8")],
)  # fmt: skip
def test_tables_print(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) > 3


def test_a_search_puts_what_is_named_before_what_mentions_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The common form of the chip first, no H200 for H20, and what only a note or a source mentions apart."""
    results = answer(capsys, "facts", "search", "h200 memory")["results"]
    assert (results[0]["id"], results[0]["name"]) == ("h200-sxm5-141gb", "hbm_bytes")
    found = cl.search_facts("h20").found
    near = [one for one in found if one.nearness == 0]
    assert near and all(re.search(r"\bH?h?20\b", f"{one.id} {one.name}") for one in near)
    view = cl.search_facts("electricity").view()
    *direct, rest, where = view.tables
    assert rest.is_detail and where.is_detail and not any(table.is_detail for table in direct)
    assert all("electricity" in str(row[1]) for table in direct for row in table.rows)


def test_a_fact_that_is_asked_for_by_name_is_the_headline(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "facts", "search", "h200", "bandwidth")
    (first,) = answer(capsys, "facts", "search", "h200", "bandwidth")["results"][:1]
    assert code == 0 and " ".join(out.split()).startswith(
        f"NVIDIA H200 SXM5 141GB, memory bandwidth: {first['given']} (Epoch AI, Machine Learning Hardware, "
        f"{first['date']})"
    )
    *tables, where = cl.search_facts("h200").view().tables
    sources = [row[3] for table in tables for row in table.rows]
    assert all(one.href or one.text == "assumption" for one in sources)
    assert "assumption" in {one.text for one in sources}
    assert "h200-sxm5-141gb" in {row[0] for row in where.rows} and "h200-sxm5-141gb" not in str(tables)


def test_a_stated_price_keeps_its_digits_whatever_its_range(capsys: pytest.CaptureFixture[str]) -> None:
    """The rent is published to the cent; what is computed from ranges shows the digits that they bear, and cents."""
    _, out, _ = run(capsys, *COST)
    assert "$2.95 rented by the hour (90 %: $1.99 to $5)" in " ".join(out.replace("\u00a0", " ").split())
    assert re.search(r"Owned +\$\d\.\d0/h", out)


def test_words_that_no_fact_mentions_are_met_with_the_nearest_that_one_does() -> None:
    """A word spelt wrong, among others that no fact has beside it."""
    for query, meant in (("h200 memry", "h200 memory"), ("llama price of memry", "price memory"), ("zzzzz", "")):
        found = cl.search_facts(query)
        assert not found.found and found.meant == meant
        assert not meant or cl.search_facts(meant).found
    view = cl.search_facts("h200 memry").view()
    assert view.context == "Did you mean 'h200 memory'?"
    assert view.context_href == "/facts?words=h200+memory"


def test_values_read_as_people_write_them() -> None:
    """In the headline, in the tables of a search and of a record; --json keeps what was published."""
    found = cl.search_facts("b200 rent")
    assert not found.view().tiles, "one fact stands in the headline"
    (text,) = [str(getattr(row[2], "text", "")) for row in found.view().tables[0].rows]
    assert re.fullmatch(r"\$\d+\.\d\d per GPU-hour", text)
    assert text in found.view().headline and found.found[0].fact.given.endswith(" $/GPU-h")
    shown = str(show_facts("h200-nvl8").view().tables)
    assert " µs'" in shown and not re.search(r"\d us'", shown)


def test_a_search_for_a_chip_leads_with_what_it_can_do() -> None:
    """Each figure of the headline is that of the record; more words ask for something else."""
    chip = cl.load_accelerator("h200-sxm5-141gb")
    headline = cl.search_facts("h200").view().headline.replace("\u00a0", " ")
    said = re.fullmatch(r"NVIDIA H200: (\d+) GB, ([\d.]+) TB/s, ([\d.]+) TFLOP/s dense bf16 \(\d+ facts\)", headline)
    assert said is not None, headline
    memory, rate, peak = said.groups()
    assert float(memory) * 1e9 == pytest.approx(chip.hbm_bytes.value, rel=0.005)
    assert float(rate) * 1e12 == pytest.approx(chip.hbm_bytes_per_s.value, rel=0.005)
    assert float(peak) * 1e12 == pytest.approx(chip.peak("bf16"), rel=0.005)
    assert cl.search_facts("electricity").view().headline.startswith("'electricity': ")


def test_what_is_known_is_counted_and_each_kind_is_a_search(capsys: pytest.CaptureFixture[str]) -> None:
    known = answer(capsys, "facts", "search")["known"]
    assert known["n_assumptions"] == sum(one["n_assumptions"] for one in known["kinds"])
    assert known["n_published"] + known["n_assumptions"] == sum(one["n_facts"] for one in known["kinds"])
    (table,) = searched_facts().view().tables
    for row, kind in zip(table.rows, known["kinds"], strict=True):
        (words,) = parse_qs(urlsplit(row[0].href).query)["words"]
        found = cl.search_facts(words)
        assert {one.kind for one in found.found} == {kind["kind"]} and len(found.found) == kind["n_facts"]
        (listed,) = found.view().tables
        assert len(listed.rows) == kind["n_records"] and int(row[1].replace(",", "")) == kind["n_records"]
        assert sum(int(one[-1]) for one in listed.rows) == kind["n_facts"]


def test_a_plot_of_accelerators_marks_the_one_that_is_searched_and_leads_to_each() -> None:
    (plot,) = cl.search_facts("h200").view().plots
    chip = cl.load_accelerator("h200-sxm5-141gb")
    *groups, marked = plot.figure["data"]
    assert (marked["x"][0], marked["y"][0]) == pytest.approx((chip.hbm_bytes_per_s.value, chip.peak("bf16")), rel=1e-3)
    assert any("<b>H200</b>" in one["text"] for one in plot.figure["layout"]["annotations"])
    leads = [address for one in groups for address in one["customdata"]]
    assert len(leads) == len(set(leads)) == len(accelerator_ids())
    assert not cl.search_facts("electricity").view().plots
