"""Where evaluations of other data are written."""

import json

import pytest

from vitzoo.evaluation.report import free_folder, safe, short_name


@pytest.mark.parametrize(
    ("dataset", "short"),
    [
        ("mnist_5k", "mnist_5k"),
        ("imagenet_v2/matched:3.0.0", "imagenet_v2_matched_3.0.0"),
        ("folder:/a/my photos/", "my_photos"),
        ("csv:tables/labels.csv", "labels"),
        ("my_package.my_file:Data", "my_package.my_file_Data"),
        ("folder:/", "data"),
    ],
)
def test_a_folder_is_named_by_the_last_part_of_the_data(dataset, short):
    assert short_name(dataset) == short


def test_a_name_of_many_letters_is_cut_to_what_a_file_system_takes():
    assert len(safe("写真" * 200).encode()) <= 100


def test_two_datasets_of_one_short_name_have_a_folder_each(tmp_path):
    def write(dataset, split):
        folder = free_folder(tmp_path, dataset, split)
        folder.mkdir(exist_ok=True)
        (folder / "metrics.json").write_text(json.dumps({"dataset": dataset, "split": split}))
        return folder.name

    assert write("folder:/a/photos", "test[:50%]") == "photos-test_50"
    assert write("folder:/b/photos", "test[:50%]") == "photos-test_50-2"
    assert write("folder:/a/photos", "test[:50]") == "photos-test_50-3"
    assert write("folder:/b/photos", "test[:50%]") == "photos-test_50-2"
