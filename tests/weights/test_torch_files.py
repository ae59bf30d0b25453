"""Torch's files read without torch, and what is not weights refused before anything of it happens."""

import io
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from vitzoo.errors import UserError
from vitzoo.weights.files import torch_pickle
from vitzoo.weights.files.open import open_weights_file
from vitzoo.weights.files.torch_pickle import Opaque, Unreadable
from vitzoo.weights.files.torch_zip import TorchFile

FOLDER = Path(__file__).parents[1] / "goldens" / "torch"


@pytest.fixture(scope="module")
def expected():
    with np.load(FOLDER / "expected.npz") as file:
        return dict(file)


def loaded(file):
    """What was saved, with the numbers of every tensor."""

    def filled(node):
        if isinstance(node, torch_pickle.Tensor):
            return file.array(node)
        if isinstance(node, dict):
            return {key: filled(value) for key, value in node.items()}
        return type(node)(map(filled, node)) if isinstance(node, list | tuple) else node

    return filled(file.described)


def test_a_trainings_checkpoint_is_tensors_numbers_and_what_was_passed_over(expected):
    content = loaded(TorchFile(FOLDER / "plain.pt"))
    assert content["epoch"] == 7
    assert isinstance(content["args"], Opaque)
    assert isinstance(content["best"], Opaque)
    assert list(content["model"]) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    for name, value in content["model"].items():
        np.testing.assert_array_equal(value, expected[f"model/{name}"])
    assert content["optimizer"]["state"][0]["exp_avg"].shape == (4, 3)


def test_every_type_view_and_parameter_is_what_torch_has(expected):
    content = loaded(TorchFile(FOLDER / "kinds.pt"))
    assert content["bfloat16"].dtype == ml_dtypes.bfloat16
    assert content["bool"].dtype == np.bool_
    for name, value in content.items():
        assert value.shape == expected[name].shape
        np.testing.assert_array_equal(value.astype(np.float32), expected[name])
    assert not content["transposed"].flags.writeable


def archive(path, description, storages=None, compression=zipfile.ZIP_STORED, **more):
    entries = {"x/data.pkl": description, **{f"x/data/{key}": v for key, v in (storages or {}).items()}, **more}
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return path


class Calls:
    """Pickles as a call of a function named in the file."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def called(name, arguments=b")"):
    """A pickle that calls a name with an empty tuple, or with what the opcodes give."""
    module, _, attribute = name.rpartition(".")
    return b"\x80\x02c" + f"{module}\n{attribute}\n".encode() + arguments + b"R."


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "posix.system",
        "builtins.eval",
        "builtins.getattr",
        "subprocess.Popen",
        "torch.load",
        "torch.nn.modules.linear.Linear",
        "numpy.core.multiarray._reconstruct",
        "collections.OrderedDict.update",
        "vitzoo.weights.files.torch_pickle.read",
    ],
)
def test_a_name_that_weights_do_not_need_is_refused_and_never_called(tmp_path, name):
    file = archive(tmp_path / "bad.pt", called(name))
    with pytest.raises(UserError, match=f"asks for {name.replace('.', '[.]')}, which no weights need"):
        TorchFile(file)


def test_a_command_in_a_pickle_is_not_run(tmp_path):
    import os

    told = pickle.dumps(Calls(os.system, f"touch {tmp_path / 'run'}"), 2)
    with pytest.raises(UserError, match="system, which no weights need"):
        TorchFile(archive(tmp_path / "bad.pt", told))
    assert not (tmp_path / "run").exists()


SET_STATE = b"}X\x01\x00\x00\x00aK\x01sb."  # with {"a": 1}
SET_SLOTS = b"N}X\x0c\x00\x00\x00__defaults__Ns\x86b."  # with (None, {"__defaults__": None})


@pytest.mark.parametrize("state", [SET_STATE, SET_SLOTS])
@pytest.mark.parametrize("name", ["torch._utils _rebuild_tensor_v2", "torch FloatStorage", "collections OrderedDict"])
def test_what_a_name_stands_for_cannot_be_changed(tmp_path, name, state):
    module, _, attribute = name.partition(" ")
    told = b"\x80\x02c" + f"{module}\n{attribute}\n".encode() + state
    with pytest.raises(UserError, match="changes "):
        TorchFile(archive(tmp_path / "bad.pt", told))


@pytest.mark.parametrize("state", [SET_STATE, SET_SLOTS])
def test_what_is_passed_over_keeps_nothing(tmp_path, state):
    told = b"\x80\x02cargparse\nNamespace\n)\x81" + state
    assert isinstance(loaded(TorchFile(archive(tmp_path / "good.pt", told))), Opaque)
    assert not hasattr(Opaque, "a")


def tensor(key=b"0", count=4, offset=0, shape=(4,), strides=(1,)):
    """A pickle of one tensor of float32."""

    def number(value):
        return b"J" + struct.pack("<i", value)

    def numbers(values):
        return b"(" + b"".join(number(value) for value in values) + b"t"

    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX" + struct.pack("<I", len(key)) + key
    storage += b"X\x03\x00\x00\x00cpu" + number(count) + b"tQ"
    arguments = b"(" + storage + number(offset) + numbers(shape) + numbers(strides) + b"\x89}t"
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R."


FOUR = np.arange(4, dtype=np.float32).tobytes()


def test_a_tensor_written_by_hand_is_read(tmp_path):
    file = archive(tmp_path / "good.pt", tensor(offset=1, shape=(3,)), {"0": FOUR})
    assert loaded(TorchFile(file)).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (5,)}, "larger than its numbers"),
        ({"offset": 1}, "larger than its numbers"),
        ({"shape": (2, 2), "strides": (3, 1)}, "larger than its numbers"),
        ({"shape": (2**30, 2**30), "strides": (1, 1)}, "larger than its numbers"),
        ({"count": 8}, "larger than its numbers"),
        ({"strides": (-1,)}, "a negative size"),
        ({"key": b"1"}, "lacks the numbers"),
        ({"key": b"../0"}, "names a storage in an unknown way"),
    ],
)
def test_a_tensor_that_does_not_fit_its_numbers_is_refused(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        loaded(TorchFile(archive(tmp_path / "bad.pt", tensor(**changes), {"0": FOUR})))


@pytest.mark.parametrize("changes", [{"shape": (5,)}, {"shape": (2**30, 2**30), "strides": (1, 1)}, {"key": b"1"}])
def test_such_a_tensor_is_refused_before_its_shape_is_believed(tmp_path, changes):
    described = tensor(**changes)
    told = described[:2] + b"}X\x04\x00\x00\x00wte." + described[2:-1] + b"s."
    source = open_weights_file(str(archive(tmp_path / "bad.pt", told, {"0": FOUR})))
    with pytest.raises(UserError, match=r"larger than its numbers|lacks the numbers"):
        source.shape("wte.")


def test_content_within_itself_or_over_and_over_is_refused(tmp_path):
    endless: list = []
    endless.append(endless)
    many: list = [0]
    for _ in range(40):
        many = [many, many]
    for content in (endless, many):
        with pytest.raises(UserError, match="nests its content without end"):
            loaded(TorchFile(archive(tmp_path / "bad.pt", pickle.dumps(content, 2))))


def test_a_compressed_entry_is_refused_unread(tmp_path):
    told = archive(tmp_path / "bomb.pt", tensor(count=2**24), {"0": bytes(2**26)}, zipfile.ZIP_DEFLATED)
    assert told.stat().st_size < 2**17
    with pytest.raises(UserError, match="compressed entry"):
        TorchFile(told)


@pytest.mark.parametrize(
    ("name", "message"),
    [("legacy.pt", r"old kind.*torch\.save"), ("program.pt", r"TorchScript.*state_dict")],
)
def test_files_of_other_kinds_say_what_to_do(name, message):
    with pytest.raises(UserError, match=message):
        TorchFile(FOLDER / name)


def test_a_file_cut_off_anywhere_or_of_another_kind_is_refused_in_one_line(tmp_path):
    whole = (FOLDER / "kinds.pt").read_bytes()
    for content in [whole[:cut] for cut in range(0, len(whole), 97)] + [b"hello", whole[:200] + whole[300:]]:
        (tmp_path / "cut.pt").write_bytes(content)
        with pytest.raises(UserError) as refused:
            loaded(TorchFile(tmp_path / "cut.pt"))
        assert "\n" not in str(refused.value)
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(3))
    (tmp_path / "arrays.pt").write_bytes(buffer.getvalue())
    with pytest.raises(UserError, match=r"not torch's"):
        TorchFile(tmp_path / "arrays.pt")
    with pytest.raises(UserError, match="can't be read"):
        TorchFile(tmp_path / "absent.pt")


# ------------------------------------------------------------------------------------- what a description may claim


def within(what, *, most):
    """Runs it; fails if it takes more memory than this."""
    tracemalloc.start()
    try:
        return what()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most


@pytest.mark.parametrize("put", [b"r\xff\xff\xff\x7f", b"r\x00\x00\x00\x10", b"p2147483647\n", b"q\xff"])
def test_a_place_in_the_memo_costs_what_the_pickle_has_whatever_its_number(put):
    assert within(lambda: torch_pickle.read(b"\x80\x02K\x07" + put + b"."), most=2**20) == 7


CLAIMS = {
    "bytes": b"B\xff\xff\xff\x7f",
    "bytes of 2**62": b"\x8e\x00\x00\x00\x00\x00\x00\x00\x40",
    "text": b"X\xff\xff\xff\x7f",
    "text of 2**62": b"\x8d\x00\x00\x00\x00\x00\x00\x00\x40",
    "an integer": b"\x8b\xff\xff\xff\x7f",
    "an integer in digits": b"I" + b"9" * 10**5 + b"\n",
    "changeable bytes": b"\x96\x00\x00\x00\x00\x00\x00\x00\x40",
    "a place never filled": b"j\xff\xff\xff\x7f",
    "a mark that isn't there": b"t",
    "an instruction of Python 2's classes": b"(cos\nsystem\no",
    "an extension": b"\x82\x01",
    "a name in the text": b"P0\n",
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_more_than_a_pickle_holds_is_refused_and_costs_nothing(claim):
    with pytest.raises(Unreadable) as caught:
        within(lambda: torch_pickle.read(b"\x80\x02" + claim + b"."), most=2**21)
    assert len(str(caught.value)) < 200


def test_copies_of_copies_are_refused():
    long = b"]q\x00(" + b"K\x01" * 5000 + b"e0"
    again = b"ctorch\nSize\nh\x00\x85R0" * 400
    with pytest.raises(Unreadable, match="copies its content over and over"):
        within(lambda: torch_pickle.read(b"\x80\x02" + long + again + b"N."), most=2**23)


@pytest.mark.parametrize("key", [b")" + b"\x85" * 100_000, b"]", b"}"])
def test_a_key_is_plain_since_what_is_nested_without_end_cannot_be_hashed(key):
    told = b"\x80\x02}" + key + b"K\x01s."
    with pytest.raises(Unreadable, match=r"has a (tuple|list|dict) for a key"):
        torch_pickle.read(told)
    assert torch_pickle.read(b"\x80\x02}K\x01K\x02\x86K\x01s.") == {(1, 2): 1}
    with pytest.raises(Unreadable, match="sets a key of a dict twice"):
        torch_pickle.read(b"\x80\x02}K\x01K\x02sK\x01K\x03s.")


DOUBLED = b"X\x01\x00\x00\x00a" + b"q\x00h\x00\x86" * 60
"""A tuple of twice the one before, 60 times: 2**60 texts in 300 bytes."""
LARGE = b"\x8b" + struct.pack("<I", 4000) + b"\x01" * 4000


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (DOUBLED + DOUBLED + b"\x93", "has a tuple of a tuple for a name"),
        (DOUBLED + b"X\x01\x00\x00\x00b\x93", "has a str of a tuple for a name"),
        (b"K\x01X\x01\x00\x00\x00b\x93", "has a str of a int for a name"),
        (b"}" + LARGE + b"K\x01s", "has an integer of 31,993 bits"),
        (b"]" + LARGE + b"a", "has an integer of 31,993 bits"),
        (b"}\x8a\x10" + b"\x01" * 16 + b"K\x01s", "has an integer of more than 64 bits for a key"),
        (b"}(" + b"K\x01" * 17 + b"tK\x01s", "has a tuple for a key"),
        (b"X\x90\x01\x00\x00" + b"a" * 400 + b"X\x01\x00\x00\x00b\x93", "asks for a{60}, which no weights need"),
        (b"ca\x1b[2J\nb\n", r"asks for 'a\\x1b\[2J.b', which no weights need"),
    ],
    ids=[
        "a doubled name",
        "a doubled module",
        "a number",
        *("an integer",) * 3,
        "a long key",
        "a long name",
        "a terminal's",
    ],
)
def test_what_would_never_end_or_could_not_be_shown_is_refused(body, why):
    with pytest.raises(Unreadable, match=why) as caught:
        within(lambda: torch_pickle.read(b"\x80\x02" + body + b"."), most=2**21)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("body", [b"}" * 2000, b"}q\x00" * 1000, b"]" + b"}\x94a" * 700, b"K\x01" + b"2" * 2000])
def test_a_pickle_of_more_instructions_than_weights_need_is_refused(body, monkeypatch):
    monkeypatch.setattr(torch_pickle, "MOST_STEPS", 1900)
    with pytest.raises(Unreadable, match="has more than 1,900 instructions, which no weights need"):
        torch_pickle.read(b"\x80\x02" + body + b".")


def test_arguments_that_are_handed_over_again_and_again_are_refused():
    many = b"(" + b"N" * 5000 + b"tq\x000"
    with pytest.raises(Unreadable, match="copies its content over and over"):
        torch_pickle.read(b"\x80\x02" + many + b"cargparse\nNamespace\nh\x00R0" * 300 + b"N.")


def test_a_part_that_recurs_counts_each_time(tmp_path):
    told = b"\x80\x02}X\x01\x00\x00\x00aK\x01" + b"q\x00h\x00\x86" * 20 + b"s."
    with pytest.raises(UserError, match="nests its content without end"):
        within(lambda: TorchFile(archive(tmp_path / "bad.pt", told)), most=2**23)


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_of_pickle_is_read(protocol):
    content = {"a": [1, -2, 2**70, 1.5, None, True, "é", b"x", (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {}, []]}
    content["again"] = content["a"]
    if protocol < 3:  # which calls a codec for bytes
        content["a"].remove(b"x")
    found = torch_pickle.read(pickle.dumps(content, protocol))
    assert found == content
    assert found["again"] is found["a"]


# -------------------------------------------------------------------------------------------------- whole archives


def test_an_entry_that_is_there_twice_is_refused(tmp_path):
    file = archive(tmp_path / "twice.pt", tensor(), {"0": FOUR})
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(file, "a") as more:
        more.writestr("x/data/0", bytes(16))
    with pytest.raises(UserError, match="holds x/data/0 twice"):
        TorchFile(file)


def test_numbers_that_are_not_those_of_their_sum_are_refused_unless_there_is_none(tmp_path):
    whole = archive(tmp_path / "good.pt", tensor(), {"0": FOUR}).read_bytes()
    damaged = bytearray(whole)
    damaged[whole.index(FOUR) + 5] ^= 1
    (tmp_path / "bad.pt").write_bytes(damaged)
    file = TorchFile(tmp_path / "bad.pt")  # numbers are looked at when they are asked for
    with pytest.raises(UserError, match=r"is damaged within data/0 \(its checksum is another\)"):
        loaded(file)
    for name in (b"x/data/0", b"x/data.pkl"):  # in the archive's list of entries
        place = whole.rindex(name) - 46 + 16
        damaged[place : place + 4] = bytes(4)
    (tmp_path / "none.pt").write_bytes(damaged)
    assert loaded(TorchFile(tmp_path / "none.pt")).shape == (4,)


def test_a_tensor_that_repeats_its_numbers_beyond_their_count_is_refused(tmp_path):
    large = {"shape": (2**31 - 1, 2**20), "strides": (0, 0)}
    with pytest.raises(UserError, match="larger than its numbers"):
        loaded(TorchFile(archive(tmp_path / "bad.pt", tensor(**large), {"0": FOUR})))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "holds an empty dict: nothing was saved in it"),
        ({"state_dict": {}}, "holds no weights by name; there are state_dict"),
        ({"epoch": 3, 4: "x", "a\nb": 1}, r"holds no weights by name; there are epoch, 4, 'a\\nb'"),
        ([1], "holds one value of type list, not weights by name"),
        (7, "holds one value of type int, not weights by name"),
    ],
)
def test_a_file_without_weights_says_what_it_holds(content, message, tmp_path):
    file = archive(tmp_path / "none.pt", pickle.dumps(content, 2))
    with pytest.raises(UserError, match=message) as caught:
        open_weights_file(str(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("part", "message"), [("epoch", "one value of type int"), ("epoch.x", "nothing but a int")])
def test_a_part_that_is_no_set_of_weights_is_refused(part, message):
    with pytest.raises(UserError, match=message):
        open_weights_file(f"{FOLDER / 'plain.pt'}:{part}")


def test_a_whole_model_says_what_to_save_in_its_place(tmp_path):
    model = called("my_package.Net") + b"ctorch.nn.modules.linear\nLinear\n."
    with pytest.raises(UserError, match=r"asks for my_package.Net, .* it is a whole model: save its state_dict\(\)"):
        TorchFile(archive(tmp_path / "model.pt", model))
