"""What a notebook gives by mistake is refused by the argument's name, before anything is loaded or written."""

import concurrent.futures
import dataclasses
import os
import time

import numpy as np
import pytest

import vitzoo
from vitzoo.checkpoints.orbax import one_at_a_time
from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.image import ImageProcessor
from vitzoo.data.settings import Preprocessing
from vitzoo.data.user_inputs import gather
from vitzoo.errors import UserError
from vitzoo.models.vit import Config
from vitzoo.weights.info import Info

WRONG = {
    "none": None,
    "an integer": 5,
    "a fraction": 0.5,
    "a boolean": True,
    "bytes": b"x",
    "a set": {1},
    "an object": object(),
    "a list": [1],
    "a dict": {1: 2},
    "a function": len,
    "an array": np.zeros(3),
    "a text": "x",
}
# By function: arguments with which it would go on to look for a checkpoint or a file, and for each of its arguments
# the kinds that it takes
FUNCTIONS = {
    vitzoo.create_model: ({"name": "vit"}, {"name": "a text", "variant": "a text", "seed": "an integer"}),
    vitzoo.list_models: ({}, {"pattern": "a text", "pretrained": "a boolean"}),
    vitzoo.train: (
        {"config": "none", "workdir": "none"},
        {"config": "a text a dict", "workdir": "a text", "overrides": "a dict a set an array"},
    ),
    vitzoo.predict: (
        {"checkpoint": "none", "inputs": "none.png"},
        {
            "checkpoint": "a text",
            "inputs": "a text bytes a list an array a set a dict",
            "top": "an integer none",
            "batch_size": "an integer",
            "weights": "a text",
            "output": "a text none",
            "features": "a text none",
            "platform": "a text",
            "out": "none",
            "given": "",
        },
    ),
    vitzoo.generate: (
        {"checkpoint": "none", "prompts": "none"},
        {
            "checkpoint": "a text",
            "prompts": "a text",
            "chat": "a boolean",
            "max_new_tokens": "an integer",
            "stop": "a text",
            "seed": "an integer",
            "weights": "a text",
            "platform": "a text",
            "output": "a text none",
        },
    ),
    vitzoo.evaluate: (
        {"checkpoint": "none"},
        {
            "checkpoint": "a text",
            "overrides": "a dict a set an array",
            "weights": "a text",
            "predictions": "a text none",
            "output": "a text none",
            "all_classes": "a boolean",
            "shots": "an integer none",
        },
    ),
    vitzoo.load: ({"checkpoint": "none"}, {"checkpoint": "a text", "weights": "a text"}),
    vitzoo.config.resolve: (
        {"config": "none"},
        {"config": "a text a dict", "arg": "a text none", "overrides": "a dict a set", "complete": "a boolean"},
    ),
    vitzoo.config.load: ({"config": "none"}, {"config": "a text", "arg": "a text none"}),
    vitzoo.config.choice: ({"arg": "a", "table": ["a"]}, {"arg": "a text", "table": "a dict"}),
    vitzoo.config.required: ({"form": "RUN"}, {"form": "a text"}),
    vitzoo.config.compare: ({"old": {}, "new": {}}, {"old": "a dict", "new": "a dict"}),
}
CASES = [(function, argument) for function, (_, arguments) in FUNCTIONS.items() for argument in arguments]


@pytest.mark.parametrize(("function", "argument"), CASES, ids=lambda one: getattr(one, "__name__", one))
def test_an_argument_of_a_wrong_kind_is_refused_by_its_name(function, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given, arguments = FUNCTIONS[function]
    for kind, value in WRONG.items():
        if kind not in arguments[argument]:
            with pytest.raises(UserError) as caught:
                function(**{**given, argument: value})
            assert caught.value.field in (argument, argument.removesuffix("s")), str(caught.value)
            assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("workdir", ["", " ", "a\0b", None, 5, b"runs"])
def test_a_training_without_a_folder_is_refused_and_leaves_nothing_where_it_was_asked_for(
    workdir, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="workdir"):
        vitzoo.train("quickstart", workdir)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "inputs", [None, 5, {"text": "x"}, [], [None], [5], [{}], [["a.png"]], iter([]), object(), [b"x", None]]
)
def test_inputs_that_are_no_pictures_are_refused_or_named(inputs):
    with pytest.raises(UserError):
        vitzoo.predict("none", inputs)


@pytest.mark.parametrize("inputs", [[1], {1}, [True], (2,), [None], [{1}], [["a.png"]], [object()], ["a.png", 1]])
def test_a_number_is_no_picture_and_closes_no_file_of_the_process(inputs):
    with pytest.raises(UserError, match=r"inputs = .*: is of the type"):
        gather(inputs)
    for descriptor in (1, 2):
        os.fstat(descriptor)


@pytest.mark.parametrize("prompts", [None, 5, [5], [None], [], [["x"]], [b"x"], {"role": "user"}, ["x", 5]])
def test_prompts_that_are_no_text_are_refused(prompts):
    with pytest.raises(UserError, match=r"^prompt"):
        vitzoo.generate("none", prompts)


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        (vitzoo.predict, {"inputs": "x", "batch_size": 0}, "batch_size = 0: must be at least 1"),
        (vitzoo.predict, {"inputs": "x", "top": -1}, "top = -1: must be at least 1"),
        (vitzoo.generate, {"prompts": "x", "max_new_tokens": 0}, "max_new_tokens = 0: must be at least 1"),
        (vitzoo.generate, {"prompts": "x", "seed": -1}, "seed = -1: must be at least 0"),
        (vitzoo.generate, {"prompts": "x", "seed": 2**40}, "seed = 1099511627776: must be at most 4,294,967,295"),
        (vitzoo.evaluate, {"shots": -1}, "shots = -1: must be at least 0"),
    ],
)
def test_a_number_outside_its_range_is_refused(function, arguments, said):
    with pytest.raises(UserError) as caught:
        function("none", **arguments)
    assert str(caught.value) == said


@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p", "repetition_penalty", "num_beams"])
@pytest.mark.parametrize("value", ["x", b"x", {1}, [1], {"a": 1}, True, float("nan"), np.zeros(2), 10**400])
def test_settings_of_writing_that_are_no_numbers_are_refused(name, value):
    with pytest.raises(UserError, match=f"^{name}"):
        vitzoo.generate("none", "x", **{name: value})


def test_arguments_that_a_function_has_not_are_pythons_to_refuse():
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        vitzoo.predict("none", "x.png", tpo=1)


def test_functions_that_save_in_several_threads_follow_one_another():
    running, most = [], []

    @one_at_a_time
    def train(number):
        running.append(number)
        most.append(len(running))
        time.sleep(0.02)
        running.remove(number)
        if number == 2:
            raise UserError("workdir", number, "is in use")
        return number

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = [pool.submit(train, number) for number in range(4)]
        assert [one.result() for one in found if one is not found[2]] == [0, 1, 3]
        with pytest.raises(UserError):
            found[2].result()
    assert most == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "images", [1, True, None, [1], [None], [], ["none.png"], [b""], {1}, np.zeros((0, 4, 4, 3), np.uint8)]
)
def test_preprocessing_refuses_what_is_no_image(images):
    known = dict.fromkeys(field.name for field in dataclasses.fields(Info))
    config = Config(image_size=(4, 4), channels=3)
    info = Info(**known | {"inputs": Inputs({"image": ImageProcessor(Preprocessing())}), "config": config})
    with pytest.raises(UserError, match=r"^inputs"):
        info.preprocess(images)
    os.fstat(1)
    assert info.preprocess(np.zeros((4, 4, 3), np.uint8)).shape == (1, 4, 4, 3)
