"""Every test file has a part that the usual command runs: what only slow tests see, nobody sees before a commit."""


def test_no_file_has_slow_tests_only(slow_only_files):
    assert slow_only_files == []
