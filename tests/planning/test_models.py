"""The table of variants against the published one."""

import sys
from pathlib import Path

import pytest

from vitzoo import registry
from vitzoo.errors import UserError
from vitzoo.planning import models

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
import make_model_table

# parameters in millions and GFLOPs at 224 and 384 pixels, as printed in the table of the scaling-ViT paper
# (https://arxiv.org/abs/2106.04560): the body at 224 pixels, multiply and add counted as two
PRINTED = {
    "s/28": ("5.4", "0.7", "2.0"),
    "s/16": ("5.0", "2.2", "7.8"),
    "S/32": ("22", "2.3", "6.9"),
    "Ti/16": ("5.5", "2.5", "9.5"),
    "B/32": ("87", "8.7", "26.0"),
    "S/16": ("22", "9.2", "31.2"),
    "B/28": ("87", "11.3", "30.5"),
    "B/16": ("86", "35.1", "111.3"),
    "L/16": ("303", "122.9", "382.8"),
    "g/14": ("1011", "533.1", "1596.4"),
    "G/14": ("1843", "965.3", "2859.9"),
}
# with class token and 1000 classes; L/32 is the "307 M" of the ViT paper's table
EXACT = {"B/16": 86_567_656, "B/32": 88_224_232, "L/16": 304_326_632, "L/32": 306_535_400, "H/14": 632_045_800}
LARGE = ("B/32", "B/28", "B/16", "L/16", "g/14", "G/14")


@pytest.fixture(scope="module")
def rows():
    return {row.variant: row for row in models.table("vit")}


@pytest.mark.parametrize("variant", PRINTED)
def test_parameters_of_the_body_round_to_the_print(rows, variant):
    printed = PRINTED[variant][0]
    digits = len(printed.partition(".")[2])
    assert f"{rows[variant].body_parameters / 1e6:.{digits}f}" == printed


@pytest.mark.parametrize("variant", PRINTED)
def test_matrix_products_lie_where_the_rest_of_the_arithmetic_leaves_them(rows, variant):
    # the print counts more than matrix products; small rows, printed to one decimal, are coarse
    lowest, highest = (-0.7, -0.1) if variant in LARGE else (-2.6, 0.9)
    for ours, printed in zip((rows[variant].gflops, rows[variant].gflops_384), PRINTED[variant][1:], strict=True):
        assert lowest <= round(100 * (ours / float(printed) - 1), 1) <= highest


@pytest.mark.parametrize("variant", EXACT)
def test_parameters_with_class_token_and_head_are_exact(rows, variant):
    assert rows[variant].parameters == EXACT[variant]


def test_parameters_without_the_head_are_exact(rows):
    assert rows["B/16"].parameters - (768 + 1) * 1000 == 85_798_656


def test_a_row_is_plain_values(rows):
    row = rows["B/16"].to_json()
    shared = {"name", "variant", "parameters", "gflops", "bytes_float32"}
    assert set(row) == shared | {"body_parameters", "gflops_384"}
    assert row["bytes_float32"] == 4 * 86_567_656
    row = kept("gpt", "gpt1").to_json()
    assert set(row) == shared | {"tokens", "source_tokens"}
    assert row["bytes_float32"] == 4 * 116_534_784


def kept(name, variant):
    (row,) = (row for row in models.table(variant) if row.name == name)
    return row


def test_a_gpt_costs_two_for_each_weight_and_token_and_its_attention_at_its_context_length():
    """Per token and block 24 d² for the weights and 4 t d for all pairs of attention, and 2 d v for the vocabulary."""
    row, t, d, v = kept("gpt", "gpt2-124M"), 1024, 768, 50_257
    assert (row.tokens, row.source_tokens) == (t, 0)
    assert row.gflops == pytest.approx(t * (12 * (24 * d * d + 4 * t * d) + 2 * d * v) / 1e9, rel=1e-12)


def test_a_model_that_reads_a_source_costs_what_512_tokens_of_it_and_512_of_the_target_do():
    """A block's attention has 8 d² a token and 4 s d for its pairs, its MLP 4 d f; a decoder's block attends twice."""
    row, t, d, f, v = kept("t5", "small"), 512, 512, 2048, 32_128
    assert (row.tokens, row.source_tokens) == (t, t)
    attention, mlp = 8 * d * d + 4 * t * d, 4 * d * f
    assert row.gflops == pytest.approx(
        t * (6 * (attention + mlp) + 6 * (2 * attention + mlp) + 2 * d * v) / 1e9, rel=1e-12
    )


def test_berts_count_with_pooler_and_without_heads_as_published():
    assert kept("bert", "base").parameters == 109_482_240


def test_a_vocabulary_that_a_variant_leaves_open_is_its_papers():
    assert kept("transformer", "base").parameters == 63_082_496  # 37,000 ids
    assert kept("gpt", "gpt-nano").parameters == 3 * (12 * 48**2 + 13 * 48) + (50_257 + 1024 + 2) * 48


def test_a_pattern_chooses_by_name_or_variant_and_rows_stand_by_model_family_and_size():
    assert [row.variant for row in models.table("s/*")] == ["s/16", "s/28"]
    assert [row.variant for row in models.table("gpt-m*")] == ["gpt-micro", "gpt-mini"]
    assert [row.variant for row in models.table("v*-small")] == ["v1.1-small"]
    assert list(dict.fromkeys(row.name for row in models.table())) == list(registry.PARTS["model"])
    with pytest.raises(UserError, match="there are s/16"):
        models.table("resnet*")


def test_every_published_variant_of_every_model_is_kept():
    published = {
        (name, variant) for name in registry.PARTS["model"] for variant in registry.find("model", name).PUBLISHED
    }
    assert {(row.name, row.variant) for row in models.kept()} == published  # else run scripts/make_model_table.py


@pytest.mark.parametrize(
    ("name", "variant"),
    [("vit", "B/16"), ("gpt", "gpt2-124M"), ("t5", "small"), ("bert", "tiny"), ("transformer", "base")],
)
def test_a_kept_row_is_what_the_model_comes_to(name, variant):
    assert make_model_table.row(name, variant) == kept(name, variant)


@pytest.mark.slow
def test_every_kept_row_is_what_its_model_comes_to():
    assert make_model_table.published() == models.kept()


def test_a_variant_that_no_paper_reports_has_a_row_too():
    assert make_model_table.row("vit", "Ti/4").variant == "Ti/4"
