"""The table of variants against the published one."""

import pytest

from vitzoo.errors import Refused
from vitzoo.planning import models

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
    assert {"name", "variant", "parameters", "gflops", "bytes_float32"} <= set(row)
    assert row["bytes_float32"] == 4 * 86_567_656


def test_a_pattern_chooses_by_name_or_variant():
    assert [row.variant for row in models.table("s/*")] == ["s/28", "s/16"]
    with pytest.raises(Refused, match="there are s/28"):
        models.table("resnet*")


def test_a_variant_that_no_paper_reports_has_a_row_too():
    assert models.row("vit", "Ti/4").variant == "Ti/4"
