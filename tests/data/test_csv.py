"""A CSV of files and labels, with one label or several."""

import time

import numpy as np
import pytest
from made_pictures import picture

from vitzoo.data.open import open_dataset, open_source
from vitzoo.data.settings import Data
from vitzoo.errors import UserError


@pytest.fixture
def table(tmp_path):
    """Writes a CSV beside the pictures 0.png .. 9.png, and gives the data section for it."""
    for number in range(10):
        picture(tmp_path / "pictures" / f"{number}.png", color=(number, 0, 0))

    def write(text: str, encoding: str = "utf-8", **settings) -> Data:
        path = tmp_path / "labels.csv"
        path.write_text(text, encoding=encoding)
        return Data(name=f"csv:{path}", **{"validation_fraction": 0.0, **settings})

    return write


def lines(header: str, *cells: str) -> str:
    return "\n".join([header, *(f"pictures/{number}.png{cell}" for number, cell in enumerate(cells))])


def test_rows_keep_their_order_and_paths_are_relative_to_the_file(table):
    source = open_source(table(lines("file,label", ",dog", ",cat", ",dog")))
    assert source.info.classes == ("cat", "dog")
    assert source.labels().tolist() == [1, 0, 1]
    assert source.ids.tolist() == [0, 1, 2]
    assert source.info.files[2].endswith("pictures/2.png")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_separators_and_the_mark_of_spreadsheets_are_understood(table, separator, encoding):
    text = lines("Filename,Category", ",é", ",b").replace(",", separator)
    assert open_source(table(text, encoding)).info.classes == ("b", "é")


def test_a_split_column_makes_the_parts(table):
    data = table(lines("path,class,split", ",a,train", ",b,train", ",a,val", ",b,TEST"))
    assert dict(open_dataset(data).counts()) == {"train": 2, "validation": 1, "test": 1}


def test_several_labels_with_bars(table):
    source = open_source(table(lines("image,labels", ",a|b", ",", ",b | c")))
    assert source.info.multi_label
    assert source.info.classes == ("a", "b", "c")
    assert source.labels().tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 1]]
    assert source.labels().dtype == np.float32
    assert source.info.class_counts == (1, 2, 1)


def test_several_columns_of_names(table):
    source = open_source(table(lines("file,label1,label2", ",a,b", ",b,")))
    assert source.labels().tolist() == [[1, 1], [0, 1]]


def test_one_column_of_zeros_and_ones_for_each_class(table):
    source = open_source(table(lines("file,boat,tree", ",1,0", ",0,1", ",1,1")))
    assert source.info.classes == ("boat", "tree")
    assert source.labels().tolist() == [[1, 0], [0, 1], [1, 1]]


def test_one_column_called_label_with_zeros_and_ones_has_one_label(table):
    source = open_source(table(lines("file,label", ",1", ",0")))
    assert not source.info.multi_label
    assert source.info.classes == ("0", "1")


def test_columns_can_be_named(table):
    text = "id,where,what,who\n" + "\n".join(f"{n},pictures/{n}.png,{'ab'[n % 2]},x" for n in range(4))
    source = open_source(table(text, image_field="where", label_field="what"))
    assert source.labels().tolist() == [0, 1, 0, 1]
    with pytest.raises(
        UserError, match="image_field: name a column, none of the usual names is there; columns: id, where"
    ):
        open_source(table(text))
    with pytest.raises(UserError, match=r"data.label_field = whut: no such column; there are: id, where, what, who"):
        open_source(table(text, image_field="where", label_field="whut"))


def test_missing_files_are_named_or_counted(table):
    text = lines("file,label", ",a", ",b") + "\npictures/none.png,a"
    with pytest.raises(UserError, match=r"1 of 3 files can't be read: .*none.png \(no such file\)"):
        open_source(table(text))
    assert open_source(table(text, bad_files="skip")).info.n == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ("file,label", "has no rows; the first line names the columns"),
        (lines("file,label", ",a", ","), "row 3 has no label"),
        (lines("file,label", ",a,b"), "row 2 has 3 cells, the header 2"),
        (lines("file,label,split", ",a,"), "row 2 names no split"),
        *[
            (
                lines("file,label,split", ",a,train", f",a,{name}"),
                f"row 3 names the split '{name}'; `all` is",
            )
            for name in ("all", " all", "ALL")
        ],
        *[
            (lines(f"file,label,split,{more}", ",a,train,x"), f"several columns fit for the split: split, {more}; keep")
            for more in ("set", "Subset", "part")
        ],
        (lines("file,label,split", ",a,train", ",b,val"), "validation has labels that train lacks: b"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(table, text, message):
    with pytest.raises(UserError, match=message):
        open_source(table(text))


def test_no_such_file_and_no_text(tmp_path):
    with pytest.raises(UserError, match="can't be read: No such file"):
        open_source(Data(name=f"csv:{tmp_path}/none.csv"))
    (tmp_path / "x.csv").write_bytes(b"file,label\n\xff\xfe,a")
    with pytest.raises(UserError, match="is not UTF-8"):
        open_source(Data(name=f"csv:{tmp_path}/x.csv"))


def test_without_a_split_column_a_share_is_validation(table):
    data = table(lines("file,label", *[",a", ",b"] * 5), validation_fraction=0.2)
    assert open_source(data, "validation").info.class_counts == (1, 1)


def test_a_file_that_is_no_text_is_refused_with_its_line(table):
    with pytest.raises(UserError, match=r"labels\.csv holds a NUL character in line 2"):
        open_source(table("file,label\n\0,a\n"))


def classes_of(data: Data) -> tuple[str, ...]:
    return open_source(data).info.classes


@pytest.mark.parametrize(
    ("cell", "name"),
    [  # RFC 4180, section 2, rules 5 to 7
        ('"12"" pizza"', '12" pizza'),
        ('"said ""hi"", twice"', 'said "hi", twice'),
        ('""""', '"'),
        ('"a;b"', "a;b"),
        ('"two\nlines"', "two\nlines"),
        ("it's", "it's"),
        ("a\\", "a\\"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_quotes_are_those_of_rfc_4180(table, cell, name, end):
    text = end.join(["file,label", f"pictures/0.png,{cell}", "pictures/1.png,other", f'"pictures/2.png",{cell}'])
    assert classes_of(table(text)) == tuple(sorted([name, "other"]))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_separator_is_counted_outside_quotes(table, separator):
    text = separator.join(["file", "label", '"a,b;c\t,;\t,;\t"']) + "\n" + separator.join(["pictures/0.png", "x", "y"])
    assert classes_of(table(text + "\n" + separator.join(["pictures/1.png", "z", "y"]))) == ("x", "z")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ('pictures/0.png,"open', 'has a quote that is never closed, at "open'),
        ('pictures/0.png,"a"b', "after the closing quote of a cell"),
        ('pictures/0.png,12" pizza', "holds a quote in a cell that doesn't begin with one, 12\" pizza"),
        ('pictures/0.png, "a"', "holds a quote in a cell that doesn't begin with one"),
        (f"pictures/0.png,{'x' * 200_000}", "has a cell of 200,000 characters"),
        (f'pictures/0.png,"{"x" * 200_000}"', "has a cell of 200,000 characters"),
        ('pictures/0.png,"open\npictures/3.png,"closed", z', "has closed"),
    ],
)
@pytest.mark.parametrize("before", [0, 3])
def test_a_malformed_row_is_refused_by_its_number(table, row, problem, before):
    above = "".join(f"pictures/{number}.png,a\n" for number in range(before))
    with pytest.raises(UserError, match=f"row {before + 2} ") as refused:
        open_source(table(f"file,label\n{above}{row}\npictures/9.png,b\n"))
    assert problem in str(refused.value)


def test_rows_are_counted_as_spreadsheets_count_them(table):
    text = 'file,label,note\n\npictures/0.png,a,"two\nlines"\n,,\npictures/1.png,,x\n'
    with pytest.raises(UserError, match=r"row 5 \(line 6\) has no label"):
        open_source(table(text))


@pytest.mark.parametrize(
    "first",
    ["x" * 1_000_000, '"' * 1_000_001, "a," * 500_000 + "b", 'a"' * 500_000, '"a",' * 250_000 + "b", ";" * 1_000_000],
    ids=["long", "quotes", "columns", "strays", "quoted", "empty"],
)
def test_a_first_line_of_a_megabyte_is_read_at_once(table, first):
    began = time.process_time()
    with pytest.raises(UserError):
        open_source(table(f"{first}\npictures/0.png,a\n"))
    assert time.process_time() - began < 5  # 0.1 to 1 s; csv.Sniffer takes 43 s for 120 KB


def test_two_columns_of_one_name_are_refused(table):
    with pytest.raises(UserError, match="has 2 columns called label"):
        open_source(table(lines("file,label,label ", ",a,b")))


def test_columns_without_a_name_are_not_used(table):
    assert classes_of(table(lines("file,cat,dog,", ",1,0,7", ",0,1,8"))) == ("cat", "dog")


@pytest.mark.parametrize("name", [" a.png", "a.png ", "  b c.png"])
def test_a_file_whose_name_begins_or_ends_with_spaces_can_be_named(name, tmp_path):
    # spaces are part of a cell (RFC 4180, section 2.4); around a name that no file has they are the writer's
    for red, file in enumerate((name, "other.png", "third.png")):
        picture(tmp_path / "made.png", (8, 8), (90 * red, 0, 0))
        (tmp_path / "made.png").rename(tmp_path / file)
    (tmp_path / "x.csv").write_text(f'file,label\n"{name}",a\n other.png ,b\nthird.png,a\n')
    dataset = open_dataset(Data(name=f"csv:{tmp_path}/x.csv", validation_fraction=0))
    files = dataset.open("train").info.files
    assert [file.removeprefix(f"{tmp_path}/") for file in files] == [name, "other.png", "third.png"]
