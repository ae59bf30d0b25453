"""Parts of a user's own, as docs/extending.md has them: trained, evaluated, used, fine-tuned; or refused in a line."""

import json
import re
import shlex
import sys
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from PIL import Image

import vitzoo
from vitzoo.checkpoints.arrays import read_params
from vitzoo.checkpoints.locate import locate
from vitzoo.cli import main
from vitzoo.config import resolve
from vitzoo.nn.paths import flatten
from vitzoo.parallel import mesh as meshes

PAGE = Path(vitzoo.__file__).parent.parent / "docs" / "extending.md"
OTHERS = """
import numpy as np
from vitzoo.data.arrays import from_arrays

def lines(data):
    pictures = np.zeros((40, 8, 8), np.uint8)
    pictures[::2, 3] = pictures[1::2, :, 3] = 255
    labels = np.arange(40) % 2
    return from_arrays({"train": (pictures, labels), "validation": (pictures[:7], labels[:7])}, ["flat", "upright"])
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with the page's file of own parts, which is the current one, on one device."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "my_parts.py").write_text("\n\n".join(blocks("python")))
    (folder / "my_lines.py").write_text(OTHERS)
    for name in ("my_parts", "my_lines"):
        sys.modules.pop(name, None)  # another test's file of that name
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    patch.syspath_prepend(folder)
    patch.setattr(meshes, "devices", lambda platform="": jax.devices(platform or None)[:1])
    yield folder
    patch.undo()
    for name in ("my_parts", "my_lines"):
        sys.modules.pop(name, None)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def commands():
    (typed,) = blocks("sh")
    return [shlex.split(line)[1:] for line in typed.splitlines()]


@pytest.fixture(scope="module")
def run(here, commands):
    """The page's first command, as typed."""
    assert main(commands[0]) == 0
    return here / "runs" / "mine"


@pytest.mark.gate
def test_parts_of_ones_own_train_and_are_measured(run, commands, capsys):
    lines = vitzoo.train("my_parts.py", run)["metrics"]  # a finished run: nothing is done
    assert lines["train"]["step"] == 100
    assert lines["train"]["accuracy"] > 0.8  # of three shades with noise; chance is a third
    assert lines["margin"]["n"] == lines["test"]["n"] == 100
    # the learning rate of step 100 is that of index 99, 89 steps after the warm-up of the 90 that are left
    assert lines["train"]["learning_rate"] == pytest.approx(1e-3 * (1 - (89 / 90) ** 2), rel=1e-5)
    assert main([*commands[1], "--json"]) == 0
    results = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]
    assert results["margin"]["metrics"]["margin"] == pytest.approx(lines["margin"]["margin"])
    assert results["test"]["metrics"]["accuracy"] == lines["test"]["accuracy"]


@pytest.mark.gate
def test_a_model_of_ones_own_predicts_and_is_loaded(run, here, commands, capsys):
    Image.new("L", (8, 8), 80).save(here / "digit.png")
    assert main(commands[2]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("digit.png  dark ")
    model, info = vitzoo.load(str(run))
    assert (info.classes, info.size, info.channels) == (("dark", "grey", "light"), (8, 8), 1)
    logits = model(info.preprocess("digit.png"))
    assert logits.shape == (1, 3)
    assert logits.argmax() == 0
    with pytest.raises(vitzoo.UserError, match="its model has no method `features`"):
        vitzoo.predict(run, ["digit.png"], features=run / "features.npz")


def test_a_model_of_ones_own_is_made_by_name(here):
    model = vitzoo.create_model("my_parts:MyModel", width=8, image_size=(4, 6), channels=1, num_classes=5)
    assert model(jnp.ones((2, 4, 6, 1))).shape == (2, 5)


@pytest.mark.slow
def test_a_model_of_ones_own_is_fine_tuned_to_other_classes(run, here):
    changes = {"init_from": str(run), "data.name": "my_lines:lines", "min_steps": 0, "total_epochs": None}
    changes |= {"total_steps": 2, "optimizer.freeze": ("hidden/.*",), "optimizer.weight_decay": 0.1}
    with pytest.raises(vitzoo.UserError, match=r"the model has no blocks to count.*; 1 is off"):
        vitzoo.train("vit/finetune", here / "lines", changes)
    vitzoo.train("vit/finetune", here / "lines", {**changes, "optimizer.layer_decay": 1.0})
    before, after = (flatten(read_params(locate(str(one)), "auto")[0]) for one in (run, here / "lines"))
    assert after["head/kernel"].shape == (32, 2)
    assert after["head/kernel"].any()
    assert before["hidden/kernel"].tobytes() == after["hidden/kernel"].tobytes()


def refusal(*overrides: str) -> str:
    with pytest.raises(vitzoo.UserError) as caught:
        resolve("my_parts.py", overrides=overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


PART = "@dataclasses.dataclass(frozen=True)\nclass Bad({base}):\n    {body}\n"
MODEL = "class Bad(MyModel):\n    {body}\n"
STATISTICS = """def __init__(self, config, **how):
        super().__init__(config, **how)
        self.norm = nnx.BatchNorm(3, rngs=nnx.Rngs(0))"""
CALL = "def __call__(self, images, train=False, key=None): return"
CONFIG = "@dataclasses.dataclass(frozen=True)\n    class Config:\n        {field}"


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("model", "Bad = 3", "lacks the base class flax.nnx.Module"),
        (
            "model",
            "class Bad(nnx.Module): ...",
            "lacks `Config`, a frozen dataclass of its settings; the constructor Bad",
        ),
        (
            "model",
            "class Bad(nnx.Module):\n    Config = MyConfig",
            r"lacks the constructor Bad\(config, rngs=rngs, execution=execution\) \(it has no __init__\)$",
        ),
        ("model", MODEL.format(body="def __init__(self, config, *, rngs): ..."), r"\(it got an unexpected keyword"),
        (
            "model",
            MODEL.format(body="def __call__(self, x, train): ..."),
            r"lacks the call model\(images, train=False, k",
        ),
        ("model", MODEL.format(body="VARIANTS = {'small': 8}"), "its VARIANTS must be a dict of dicts"),
        (
            "model",
            MODEL.format(body="SHARDING_RULES = (('.*', 'embed'),)"),
            r"its SHARDING_RULES = \('.*', 'embed'\): rows",
        ),
        (
            "model",
            MODEL.format(body="SHARDING_RULES = (('.*', ('wide',)),)"),
            "no logical axis 'wide'; there are embed",
        ),
        ("model", MODEL.format(body="@dataclasses.dataclass\n    class Config: ..."), "lacks `Config`, a frozen"),
        ("model", MODEL.format(body=CONFIG.format(field="width: int = 3")), "lacks `image_size`, `channels`, `num_cla"),
        (
            "model",
            MODEL.format(body=CONFIG.format(field="image_size: int | None = None; channels: int | None = None")),
            "gives no logits of classes, which evaluate.test needs: its Config lacks `num_classes`",
        ),
        (
            "model",
            "@dataclasses.dataclass(frozen=True)\nclass Small(MyConfig):\n    image_size: int = 8\n"
            + MODEL.format(body="Config = Small"),
            r"its Config.image_size can't hold .* \(8, 8\): let it be int \| tuple\[int, int\] \| None",
        ),
        ("model", MODEL.format(body=CONFIG.format(field="width: 'Nothing' = 3")), "types .* can't be read: NameError"),
        ("optimizer", "class Bad: ...", "is no dataclass of settings"),
        ("optimizer", PART.format(base="object", body="..."), "is no subclass of vitzoo.optim.base.Optimizer"),
        ("optimizer", PART.format(base="Optimizer", body="momentum: float = 0.9"), "lacks `method`"),
        ("optimizer", "class Bad(Lion):\n    push: float = 1.0", r"wants @dataclasses.dataclass\(frozen=True\)"),
        ("schedule", PART.format(base="Schedule", body="..."), "lacks `shape`"),
        ("objective", PART.format(base="object", body="..."), "lacks `bind`"),
        (
            "objective",
            PART.format(base="SquaredError", body="TAKES = 'sound'"),
            "its TAKES is 'sound'; it is empty for",
        ),
        ("objective", PART.format(base="SquaredError", body="TAKES = 'text'"), "takes text, and lacks `rows`"),
        (
            "evaluate.margin",
            PART.format(base="Evaluator", body="def outputs(self, model, batch): ..."),
            "lacks `metrics`",
        ),
        (
            "evaluate.margin",
            "class Bad(Margin):\n    BETTER = {'margin': 'max'}",
            "its BETTER must be a dict of max or min by metric",
        ),
        ("evaluate.margin", "class Bad(Margin):\n    BETTER = None", "its BETTER must be a dict of max or min"),
        (
            "evaluate.margin",
            PART.format(base="object", body="..."),
            "is no subclass of vitzoo.evaluation.settings.Eval",
        ),
    ],
)
def test_a_part_that_lacks_something_is_refused_by_the_config_in_one_line(here, kind, code, message):
    name = f"my_bad_{zlib.crc32(code.encode())}"
    (here / f"{name}.py").write_text(f"from my_parts import *\n{code}\n")
    said = refusal(f"{kind}.name={name}:Bad")
    assert said.startswith(f"{kind}.name = {name}:Bad: ")
    assert re.search(message, said), said


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import not_there", "ModuleNotFoundError: No module named 'not_there'"),
        ("1 +", "SyntaxError"),
        ("", "AttributeEr"),
    ],
)
@pytest.mark.parametrize("kind", ["model", "optimizer"])
def test_a_file_that_cannot_be_imported_is_refused(here, kind, code, message):
    name = f"my_broken_{kind}_{len(message)}"
    (here / f"{name}.py").write_text(code)
    assert re.search(f"{kind}.name = {name}:Bad: can't be imported: {message}", refusal(f"{kind}.name={name}:Bad"))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("objective", "what its `bind` gives lacks `term_weights`, `counts`, `sums`"),
        ("objective", "what its `bind` gives lacks `update`"),
        ("model", r"gives \(1, 7\) for one image; wanted are logits \(1, 3\)"),
        (
            "model",
            r"keeps statistics \(norm/mean\), so .* add \"example_weight\": \"weight\" to its INPUTS",
        ),
    ],
)
def test_what_only_shows_when_it_is_made_is_refused_before_training(here, part, message):
    name = f"my_late_{zlib.crc32(message.encode())}"
    body = {
        "lacks `term": "def bind(self, info, model_config): return 3",
        "lacks `upda": "def init(self, params): return {}",
        "gives": "def __call__(self, images, train=False, key=None): return jax.numpy.ones((1, 7))",
        "keeps": STATISTICS,
    }[re.search("lacks `.{4}|^gives|^keeps", message)[0]]
    code = MODEL.format(body=body) if part == "model" else PART.format(base="SquaredError", body=body)
    (here / f"{name}.py").write_text(f"from my_parts import *\n{code}")
    with pytest.raises(vitzoo.UserError, match=message):
        vitzoo.train("my_parts.py", here / "late", [f"{part}.name={name}:Bad"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "os:system",
            "is of Python's own module os; your own is a class or function of a file of yours, or of an inst",
        ),
        ("math:sqrt", "is of Python's own module math; "),
        ("builtins:exec", "is of Python's own module builtins; "),
        ("json.decoder:JSONDecoder", "is of Python's own module json.decoder; "),
        ("antigravity:geohash", "is of Python's own module antigravity; "),  # to import it opens a browser
        ("my_borrowed:length", "is of Python's own module builtins; "),
        ("my_borrowed:system", "is of Python's own module (posix|nt); "),
        ("my_borrowed:part", "is of Python's own module shutil; "),
        ("my_borrowed:put", "is of Python's own module builtins; "),
        ("my_borrowed:", "has no name behind the colon; your own is written package.module:Class"),
        (":length", "has no name before the colon; your own is written package.module:Class"),
        ("my_exit:Part", "can't be imported: SystemExit: 0"),
    ],
)
@pytest.mark.parametrize("field", ["data", "model", "objective"])
def test_what_is_pythons_own_is_never_called(here, field, name, message, capsys):
    (here / "my_borrowed.py").write_text(
        "import functools, os, shutil\nlength, system, put = len, os.system, [].append\n"
        "part = functools.partial(functools.partial(shutil.rmtree), ignore_errors=True)\n"
    )
    (here / "my_exit.py").write_text("raise SystemExit(0)\n")
    assert main(["train", "--config", "my_parts.py", "--workdir", "runs/own", f"--config.{field}.name={name}"]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(f"vitzoo: {field}.name = {re.escape(name)}: {message}.*\n", said), said


@pytest.mark.parametrize(
    "command", ["train --config my_parts.py --workdir runs/own --config.data.name={}", "data check {}"]
)
@pytest.mark.parametrize("name", ["hf:imdb", "s3:bucket/photos", "parquet:a.parquet", "my_none:data"])
def test_a_word_before_a_colon_that_is_nothing_is_told_what_there_is(here, command, name, capsys):
    assert main(command.format(name).split()) == 2
    lines = capsys.readouterr().err.splitlines()
    word = name.partition(":")[0]
    assert len(lines) == 1
    assert f"{name}: there is no module {word} to import; data are named csv:FILE, folder:PATH, jsonl:FILE" in lines[0]


@pytest.mark.parametrize(
    "command", ["train --config my_parts.py --workdir runs/own --config.data.name={}", "data check {}"]
)
@pytest.mark.parametrize("name", ["numpy:zeros", "numpy:load"])
def test_a_packages_function_that_makes_no_data_is_one_line(here, command, name, capsys):
    assert main(command.format(name).split()) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert f" = {name}: " in lines[0]


BOOM = "raise ValueError('boom\\nand more')"
EXIT = "raise SystemExit(3)"


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("data", f"def Bad(data): {BOOM}"),
        ("data", f"class Bad:\n    def __init__(self, data): ...\n    def open(self, split): {BOOM}"),
        ("model", MODEL.format(body=f"def __call__(self, x, train=False, key=None): {BOOM}")),
        ("model", MODEL.format(body=f"def __init__(self, config, *, rngs, execution): {BOOM}")),
        ("objective", f"class Bad(SquaredError):\n    def bind(self, info, model_config): {BOOM}"),
        ("objective", f"class Bad(SquaredError):\n    def sums(self, model, batch, key=None, **how): {BOOM}"),
        ("optimizer", f"class Bad(Lion):\n    def method(self): {BOOM}"),
        ("schedule", f"class Bad(Falling):\n    def shape(self, step, total): {BOOM}"),
        ("evaluate.margin", f"class Bad(Margin):\n    def bind(self, *, inputs, source, config): {BOOM}"),
        ("evaluate.margin", f"class Bad(Margin):\n    def outputs(self, model, batch): {BOOM}"),
        ("evaluate.margin", f"class Bad(Margin):\n    def check(self): {BOOM}"),
        ("data", f"def Bad(data): {EXIT}"),
        ("data", f"class Bad:\n    def __init__(self, data): ...\n    def open(self, split): {EXIT}"),
        ("model", MODEL.format(body=f"def __call__(self, x, train=False, key=None): {EXIT}")),
        ("objective", f"class Bad(SquaredError):\n    def bind(self, info, model_config): {EXIT}"),
        ("evaluate.margin", f"class Bad(Margin):\n    def check(self): {EXIT}"),
    ],
)
def test_a_part_that_fails_is_named_with_its_line_before_anything_is_written(here, field, code, capsys):
    name = f"my_fault_{zlib.crc32(code.encode())}"
    (here / f"{name}.py").write_text(f"from my_parts import *\n{code}\n")
    flags = ["--config", "my_parts.py", "--workdir", "runs/fault", f"--config.{field}.name={name}:Bad"]
    assert main(["train", *flags, "--debug"]) == 2
    said = capsys.readouterr().err
    line = 2 + code.rstrip().count("\n")  # the last of the file
    fault = "SystemExit: 3" if EXIT in code else "ValueError: boom"
    assert said.splitlines()[-1] == f"vitzoo: {field}.name = {name}:Bad: {name}.py:{line}: {fault}"
    assert "Traceback" in said
    assert not (here / "runs" / "fault").exists()


def test_a_part_that_fails_when_a_run_has_begun_is_its_failure(here):
    from vitzoo import registry

    (here / "my_metric.py").write_text(
        f"from my_parts import *\ndef helper(): {BOOM}\nclass Bad(Margin):\n"
        "    def metrics(self, rows, num_classes): helper()\n"
    )
    evaluator = registry.find("evaluator", "my_metric:Bad", "evaluate.margin.name")
    faults = registry.UserPartFaults()
    faults.begun = True
    with pytest.raises(vitzoo.RunError) as failure, faults:
        evaluator().metrics({}, 0)
    assert str(failure.value) == "evaluate.margin.name = my_metric:Bad: my_metric.py:2: ValueError: boom"
    with pytest.raises(ZeroDivisionError), registry.UserPartFaults():  # no part of a user's own had a hand in it
        1 / 0  # noqa: B018


def method(kind: str, body: str) -> str:
    """A part whose method or attribute gives another value than it must."""
    base = {"optimizer": "Lion", "schedule": "Falling", "objective": "SquaredError", "model": "MyModel"}
    return f"class Bad({base.get(kind, 'Margin')}):\n    {body}\n"


REMEMBERS = """def init(self, params):
        return {"mean": jax.numpy.zeros(3)}
    def update(self, memory, params, notes, step):
        return """
CONTRASTS = """sums = None
    def embeddings(self, model, batch, key=None, **how):
        return {"rows": model(batch["image"])}
    def sums_of(self, embeddings, params, batch, **how):
        return """
OTHER_SUMS = "def sums(self, model, batch, key=None, **how):\n        one = jax.numpy.ones(())\n        return "
RIGHT = '{"squares": one}'
ADAPTS = """adapts_decayed = True
    def trust_ratio(self, update, weights): return"""
OUTPUTS = """def outputs(self, model, batch):
        weight = {"example_weight": batch["example_weight"]}
        return"""
OTHER_METHOD = "def method(self): return optax.GradientTransformation("
HELD = "def __init__(self, config, **how):\n        super().__init__(config, **how)\n        self.table = "
UNITS = r"float32\[\]"


@pytest.mark.parametrize(
    ("field", "body", "message"),
    [
        (
            "optimizer",
            "def method(self): return None",
            "`method` gives None; wanted is an optax.GradientTr",
        ),
        ("optimizer", "def method(self): return optax.scale_by_adam", "`method` gives `scale_by_adam`"),
        ("optimizer", "def method(self): return 'adam'", "`method` gives 'adam'"),
        ("optimizer", f"{OTHER_METHOD}lambda p: 'none', lambda g, s, p: (g, s))", r"`method\(\).init` gives 'none'"),
        ("optimizer", f"{OTHER_METHOD}lambda p: {{}}, lambda g, s, p: g)", r"gives a dict of head, hidden; wanted is"),
        ("optimizer", f"{OTHER_METHOD}lambda p: (), lambda g, s, p: (None, s))", r"`method\(\).update` gives None"),
        (
            "optimizer",
            f"{OTHER_METHOD}lambda p: (), lambda g, s, p: (jax.tree.map(lambda l: l.sum(), g), s))",
            r"gives float32\[\] in place of float32\[3\] for head/bias; wanted is an update for each gradient",
        ),
        (
            "optimizer",
            f"{OTHER_METHOD}lambda p: (jax.numpy.zeros(3),), lambda g, s, p: (g, (s[0].sum(),)))",
            r"gives float32\[\] in place of float32\[3\] for 0; wanted is a state that is shaped as it was",
        ),
        ("optimizer", "def method(self): return optax.adam(0.1)", "`method` gives updates against the gradients; want"),
        ("optimizer", f"{ADAPTS} None", "`trust_ratio` gives None; wanted is a number for each tensor"),
        ("optimizer", f"{ADAPTS} update", r"`trust_ratio` gives float32\[\d+, \d+\]"),
        ("optimizer", f"{ADAPTS} 'all'", "`trust_ratio` gives 'all'"),
        (
            "schedule",
            "def shape(self, step, total): return None",
            "`shape` gives None; wanted is a number for each",
        ),
        ("schedule", "def shape(self, step, total): return np.ones(3)", r"`shape` gives float64\[3\]"),
        ("schedule", "def shape(self, step, total): return '1'", "`shape` gives '1'"),
        ("schedule", "def shape(self, step, total): return 1j", "`shape` gives 1j"),
        (
            "schedule",
            "def shape(self, step, total): return -1.0",
            "`shape` gives a learning rate of -0.0001 at step 1; wanted is a number from 0 on at every step",
        ),
        ("schedule", "def shape(self, step, total): return float('nan')", "a learning rate of nan at step 0"),
        ("schedule", "def shape(self, step, total): return 0.5 - step / total", r"of -1.*e-0. at step 56"),
        ("schedule", "def shape(self, step, total): return 1 / abs(step - 20)", "of inf at step 30"),
        ("schedule", "def make(self, *how): return 0.1", "`make` gives 0.1; wanted is a function of the step"),
        ("schedule", "def make(self, *how): return lambda step: [0.1]", "`make` gives a list of 1"),
        ("schedule", "def make(self, *how): return lambda step: -step", "`make` gives a learning rate of -1 at step 1"),
        ("objective", "term_weights = {'other': 1.0}", "`counts` gives a dict of squares; wanted is .* names, other"),
        ("objective", "term_weights = None", '`term_weights` gives None; wanted is a dict of numbers, {"loss": 1.0}'),
        ("objective", "term_weights = {}", "`term_weights` gives a dict of nothing"),
        ("objective", "term_weights = {'squares': '1'}", "`term_weights` gives '1' for squares"),
        ("objective", "term_weights = {'squares': float('nan')}", "`term_weights` gives nan for squares"),
        ("objective", "def counts(self, batch): return None", "`counts` gives None; wanted is a number for each"),
        ("objective", "def counts(self, batch): return batch['example_weight'].sum()", r"`counts` gives float32\[\];"),
        (
            "objective",
            "def counts(self, batch): return {'squares': batch['example_weight']}",
            r"gives float32\[\d+\] for sq",
        ),
        ("objective", "def counts(self, batch): return {'squares': None}", "`counts` gives None for squares"),
        ("objective", f"{OTHER_SUMS} None", "`sums` gives None; wanted is three dicts: sums of the terms, metrics and"),
        ("objective", f"{OTHER_SUMS} {RIGHT}", "`sums` gives a dict of squares; wanted is three dicts"),
        ("objective", f"{OTHER_SUMS} {RIGHT}, {{}}", "`sums` gives a tuple of 2"),
        *(
            (
                "objective",
                f"{OTHER_SUMS} {RIGHT}, {{{taken!r}: (one, one)}}, {{}}",
                f"wanted is another name for {taken}, which each line of the log has",
            )
            for taken in ("loss", "loss_squares", "step", "seconds", "learning_rate")
        ),
        (
            "objective",
            f"{OTHER_SUMS} {{'other': one}}, {{}}, {{}}",
            "`sums` gives a dict of other; wanted is a n",
        ),
        ("objective", f"{OTHER_SUMS} {{'squares': 1}}, {{}}, {{}}", "`sums` gives 1 for squares"),  # no gradient
        ("objective", f"{OTHER_SUMS} {{'squares': one[None]}}, {{}}, {{}}", r"`sums` gives float32\[1\] for squares"),
        (
            "objective",
            f"{OTHER_SUMS} {RIGHT}, {{'accuracy': one}}, {{}}",
            rf"`sums` gives {UNITS} for accuracy",
        ),
        (
            "objective",
            f"{OTHER_SUMS} {RIGHT}, {{'accuracy': (one, None)}}, {{}}",
            "a tuple of 2 for accuracy",
        ),
        ("objective", f"{OTHER_SUMS} {RIGHT}, [], {{}}", "`sums` gives a list of 0; wanted is two numbers"),
        (
            "objective",
            f"{OTHER_SUMS} {RIGHT}, {{}}, {{'mean': one}}",
            rf"gives {UNITS} for mean; wanted is a Sum",
        ),
        ("objective", f"{OTHER_SUMS} {RIGHT}, {{}}, None", "`sums` gives None; wanted is a Sum or Rows for each note"),
        ("objective", f"{REMEMBERS} None", "`update` gives None; wanted is a memory that is shaped as it was"),
        ("objective", f"{REMEMBERS} {{}}", "`update` gives a dict of nothing; wanted is a memory with mean"),
        (
            "objective",
            f"{REMEMBERS} {{'mean': memory['mean'].sum()}}",
            r"float32\[\] in place of float32\[3\] for m",
        ),
        (
            "objective",
            f"{REMEMBERS} {{'mean': memory['mean'] > 0}}",
            r"bool\[3\] in place of float32\[3\] for mean",
        ),
        (
            "objective",
            f"{REMEMBERS} {{'mean': {{'of': memory['mean']}}}}",
            "a dict of mean, of another structure",
        ),
        ("objective", REMEMBERS.replace('{"mean": jax.numpy.zeros(3)}', "None") + "memory", "`init` gives None"),
        ("objective", REMEMBERS.replace("jax.numpy.zeros(3)", "'zeros'") + "memory", "`init` gives 'zeros' for mean"),
        ("objective", REMEMBERS.replace('"mean"', "3") + "memory", "`init` gives 3 as a name"),
        ("objective", CONTRASTS + "None", "`sums_of` gives None; wanted is three dicts"),
        ("objective", CONTRASTS + "{'other': 1.0}, {}, {}", "`sums_of` gives a dict of other"),
        ("objective", CONTRASTS + "{'squares': 1}, {}, {}", "`sums_of` gives 1 for squares"),
        ("objective", CONTRASTS.replace('{"rows": model(batch["image"])}', "None") + "1", "`embeddings` gives None"),
        (
            "objective",
            CONTRASTS.replace('{"rows": model(batch["image"])}', "model(batch['image'])") + "1",
            r"gives float32\[\d+, 3\]",
        ),
        ("objective", CONTRASTS.replace("])}", "]).sum()}") + "1", rf"`embeddings` gives {UNITS} for rows"),
        (
            "evaluate.margin",
            "def bind(self, **how): return None",
            "`bind` gives None; wanted is what has `outputs` and",
        ),
        ("evaluate.margin", "def bind(self, **how): return 'self'", "`bind` gives 'self'"),
        ("evaluate.margin", "def bind(self, **how): return self.outputs", "`bind` gives `outputs`"),
        (
            "evaluate.margin",
            f"{OUTPUTS} None",
            r"`outputs` gives None; wanted is a dict of arrays \[batch, ...\], here with",
        ),
        ("evaluate.margin", f"{OUTPUTS} batch['image']", r"`outputs` gives uint8|float32\[\d+, 8, 8, 1\]"),
        ("evaluate.margin", f"{OUTPUTS} {{**weight, 'margin': 'wide'}}", "`outputs` gives 'wide' for margin"),
        ("evaluate.margin", f"{OUTPUTS} {{**weight, 'margin': [1.0]}}", "`outputs` gives a list of 1 for margin"),
        ("evaluate.margin", f"{OUTPUTS} {{**weight, 'margin': 3.0}}", "`outputs` gives 3.0 for margin"),
        ("evaluate.margin", f"{OUTPUTS} {{**weight, 3: batch['label']}}", "`outputs` gives 3 as a name"),
        ("evaluate.margin", f"{OUTPUTS} {{**weight, 'margin': batch['label'].sum()}}", r"gives int32\[\] for margin"),
        ("evaluate.margin", f"{OUTPUTS} {{**weight, 'margin': batch['label'][:1]}}", r"gives int32\[1\] for margin"),
        (
            "evaluate.margin",
            f"{OUTPUTS} {{'margin': batch['label']}}",
            r"a dict of margin; wanted is example_weight \[batch\]",
        ),
        (
            "evaluate.margin",
            f"CLASSES = True\n    {OUTPUTS} {{**weight, 'label': batch['label']}}",
            "gives a dict of example_weight, label; wanted is loss besides, as ClassificationEvaluator",
        ),
        ("evaluate.margin", f"{OUTPUTS} {{**weight, 'id': batch['label']}}", "wanted is another name for id"),
        (
            "evaluate.margin",
            f"{OUTPUTS} {{**weight, 'sums': batch['label']}}",
            "gives int32.* wanted is a dict of arrays of",
        ),
        (
            "evaluate.margin",
            f"{OUTPUTS} {{**weight, 'sums': {{'all': None}}}}",
            "`outputs` gives None for all; wanted is",
        ),
        ("model", f"{HELD}np.ones(3)", "holds table, a plain array: make it in the call, or an nnx.Param"),
        (
            "model",
            f"{HELD}jax.numpy.ones(3)",
            "holds table, a plain array: .* optimizer.freeze=",
        ),
        ("model", f"{HELD}nnx.List([np.ones(3)])", "holds table/0, a plain array"),
        (
            "model",
            f"{HELD}nnx.Param(np.ones(3, 'int32'))",
            r"table, an nnx.Param of int32\[3\]: .* must be floats",
        ),
        ("model", f"{HELD}nnx.Param(np.ones(3, bool))", r"holds table, an nnx.Param of bool\[3\]"),
        ("model", f"{HELD}nnx.Param(np.ones(3, complex))", r"holds table, an nnx.Param of complex\d+\[3\]"),
    ],
)
def test_a_value_of_another_form_is_told_with_its_method_before_anything_is_written(here, field, body, message, capsys):
    name = f"my_value_{zlib.crc32(body.encode())}"
    (here / f"{name}.py").write_text(f"from my_parts import *\n{method(field, body)}")
    flags = ["--config", "my_parts.py", "--workdir", "runs/value", f"--config.{field}.name={name}:Bad"]
    code = main(["train", *flags])
    said = capsys.readouterr().err
    assert code == 2, said
    said = said.splitlines()[-1]
    assert said.startswith(f"vitzoo: {field}.name = {name}:Bad: {'' if field == 'model' else 'its '}"), said
    assert re.search(message, said), said
    assert not (here / "runs" / "value").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("None", "gives None; wanted is a dict of numbers"),
        ("[1.0]", "gives a list of 1"),
        ("{'margin': None}", "gives None for margin"),
        ("{'margin': 'wide'}", "gives 'wide' for margin"),
        ("{'margin': rows['margin']}", r"gives float32\[3\] for margin"),
        ("{1: 0.5}", "gives 1 as a name"),
        ("{'step': 0.5}", "wanted is another name for step, which each line has"),
        ("{'n': 3.0}", "wanted is another name for n, which each line has"),
    ],
)
def test_metrics_of_another_form_are_the_failure_of_a_run_that_has_begun(here, given, message):
    from vitzoo import registry
    from vitzoo.evaluation.own_evaluators import checked_metrics

    name = f"my_metrics_{zlib.crc32(given.encode())}"
    (here / f"{name}.py").write_text(
        f"from my_parts import *\nclass Bad(Margin):\n    def metrics(self, rows, count): return {given}\n"
    )
    evaluator = registry.find("evaluator", f"{name}:Bad", "evaluate.margin.name")()
    faults = registry.UserPartFaults()
    faults.begun = True
    with pytest.raises(vitzoo.RunError, match=message) as failure, faults:
        checked_metrics(evaluator, evaluator.metrics({"margin": np.ones(3, np.float32)}, 0))
    assert str(failure.value).startswith(f"evaluate.margin.name = {name}:Bad: its `metrics` gives ")
    right = {"a": np.float32(0.5), "b": jnp.ones(()), "c": 3, "d": float("nan")}
    assert {type(value) for value in checked_metrics(evaluator, right).values()} == {int, float}


EXAMPLES = """
import numpy as np
from vitzoo.data.sources.base import Table

def data(data, count=2, kind="label"):
    fields, splits = {"image": "image", "label": kind}, {"train": np.arange(2)}
    return Table("mine", fields, splits, np.arange(2, dtype=np.uint64), read, classes=("a", "b"), channels=1)

def read(index):
    image = np.zeros((8, 8), np.uint8)
    return """


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ("None", "gives None as an example; wanted is a dict of image, label"),
        ("image", r"gives uint8\[8, 8\] as an example"),
        ("[image, 0]", "gives a list of 2 as an example"),
        ("{'image': image}", "gives a dict of image as an example; it lacks label"),
        ("{'label': 0}", "gives a dict of label as an example; it lacks image"),
        ("{'image': image, 'label': 'a'}", "has the label 'a'; wanted is the number of a class"),
        ("{'image': image, 'label': 0.5}", "has the label 0.5; wanted is the number of a class"),
        ("{'image': image, 'label': None}", "has the label None"),
        ("{'image': image, 'label': 7}", "has the label 7"),
        (
            "{'image': None, 'label': 0}",
            "gives None as image; wanted is a picture, the bytes of a file, a `Path`, or an",
        ),
        ("{'image': 'a.png', 'label': 0}", "gives 'a.png' as image"),
        ("{'image': image[0], 'label': 0}", r"gives uint8\[8\] as image"),
    ],
)
def test_an_example_of_another_form_is_refused(here, example, message):
    from vitzoo.data.open import open_source
    from vitzoo.data.settings import Data

    name = f"my_examples_{zlib.crc32(example.encode())}"
    (here / f"{name}.py").write_text(f"{EXAMPLES}{example}\n")
    with pytest.raises(vitzoo.UserError, match=message) as caught:
        open_source(Data(name=f"{name}:data"))
    assert str(caught.value).startswith(f"data.name = {name}:data: ")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("text", "None", "gives None as text; wanted is a text"),
        ("text", "5", "gives 5 as text"),
        ("prompt", "b'raw'", "gives b'raw' as prompt"),
        ("choices", "'one'", "gives 'one' as choices; wanted is a list of texts"),
        ("choices", "[1, 2]", "gives a list of 2 as choices"),
        ("turns", "['hello']", "gives a list of 1 as turns; wanted is a list of"),
        ("turns", "[{'role': 'user'}]", "gives a list of 1 as turns"),
        ("text", "'right'", ""),
        ("choices", "['a', 'b']", ""),
        ("turns", "[{'role': 'user', 'text': 'hello'}]", ""),
    ],
)
def test_a_text_of_another_form_is_refused(here, field, value, message):
    from vitzoo.data.open import open_source
    from vitzoo.data.settings import Data

    name = f"my_text_{zlib.crc32((field + value).encode())}"
    table = f"Table('t', ({field!r},), {{'train': np.arange(1)}}, np.arange(1), lambda i: {{{field!r}: {value}}})"
    (here / f"{name}.py").write_text(
        f"import numpy as np\nfrom vitzoo.data.sources.base import Table\ndef data(data): return {table}\n"
    )
    if not message:
        assert len(open_source(Data(name=f"{name}:data"), needs="text")) == 1
        return
    with pytest.raises(vitzoo.UserError, match=message):
        open_source(Data(name=f"{name}:data"), needs="text")


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("info = dataclasses.replace(RIGHT.info, n=3)", "its `info.n` is 3, and there are 2 examples"),
        ("info = None", "its `info.n` is None"),
        ("ids = None", r"its `ids` are None; wanted is int64\[2\]"),
        ("ids = ['a', 'b']", "its `ids` are a list of 2"),
        ("ids = np.arange(3)", r"its `ids` are int64\[3\]"),
    ],
)
def test_a_source_that_does_not_count_its_examples_is_refused(here, attribute, message):
    from vitzoo.data.open import open_source
    from vitzoo.data.settings import Data

    name = f"my_source_{zlib.crc32(attribute.encode())}"
    source = f"""
import dataclasses
RIGHT = data(None).open("train")
class Source:
    info, ids, fields, where = RIGHT.info, RIGHT.ids, RIGHT.fields, RIGHT.where
    {attribute}
    def __len__(self): return 2
    def __getitem__(self, index): return RIGHT[index]
class Mine:
    def __init__(self, data): ...
    def open(self, split): return Source()
"""
    (here / f"{name}.py").write_text(f"{EXAMPLES}{{'image': image, 'label': 0}}\n{source}")
    with pytest.raises(vitzoo.UserError, match=message):
        open_source(Data(name=f"{name}:Mine"))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("def shape(self): return None", "its `shape` gives None; wanted is a shape and a type"),
        ("def shape(self): return (64,)", "its `shape` gives a tuple of 1"),
        ("def shape(self): return jax.ShapeDtypeStruct((-1,), np.float32)", r"its `shape` gives float32\[-1\]"),
        ("def array(self, value, random): return None", r"gives None; its shape is float32\[64\]"),
        ("def array(self, value, random): return 'series'", "gives 'series'"),
        ("def array(self, value, random): return [[1.0], [2.0, 3.0]]", "gives a list of 2"),
        ("def array(self, value, random): return np.ones(3)", r"gives float64\[3\]"),
        ("def model_fields(self): return None", "its `model_fields` gives None"),
        ("def model_fields(self): return ['length']", "its `model_fields` gives a list of 1"),
        ("def model_fields(self): return {3: 4}", "its `model_fields` gives 3 as a name"),
    ],
)
def test_an_input_of_another_form_is_refused(here, method, message):
    from vitzoo import registry
    from vitzoo.data.processors.array import ArrayProcessor, OwnArrays

    name = f"my_input_{zlib.crc32(method.encode())}"
    (here / f"{name}.py").write_text(f"from my_parts import *\nclass Bad(Series):\n    {method}\n")
    settings = registry.find("input", f"{name}:Bad", "inputs.series")()
    source = type("Source", (), {"info": type("Info", (), {"classes": None})})

    def use():
        OwnArrays(settings, "series", "series").check(np.ones(64, np.float32))
        ArrayProcessor(settings, "series", f"{name}:Bad").model_fields(source)

    with pytest.raises(vitzoo.UserError, match=message) as caught:
        use()
    assert str(caught.value).startswith("inputs.series = ")


@pytest.mark.parametrize("given", ["None", "'logits'", "images.sum()", "(images, images)", "images > 0"])
def test_what_is_no_logits_of_a_batch_is_refused(here, given):
    from vitzoo import registry
    from vitzoo.objectives.inputs import logits_of

    name = f"my_logits_{zlib.crc32(given.encode())}"
    (here / f"{name}.py").write_text(f"from my_parts import *\n{MODEL.format(body=f'{CALL} {given}')}")
    model = registry.find("model", f"{name}:Bad")
    batch = {"image": jnp.ones((2, 4, 4, 1))}
    made = model(model.Config(2, (4, 4), 1, 3), rngs=nnx.Rngs(0), execution=None)
    with pytest.raises(vitzoo.UserError, match=r"`__call__` gives .*; wanted is logits \[2, classes\] for float32"):
        logits_of(made, batch)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import not_there", r"^data.name = .* can't be imported: ModuleNotFoundError"),
        ("def data(): ...", "must take one argument, the data section"),
        (
            "def data(data): return [1, 2]",
            r"gives `list`, which lacks `open`: return vitzoo.data.arrays.from_arrays\(",
        ),
        (
            "class data:\n    def __init__(self, data): ...\n    def open(self, split): return [1]",
            "gives `list`, which lacks `info`, `ids`, `fields`, `where`",
        ),
        (
            "def data(data): return from_arrays({'train': (np.zeros((3, 8, 8)), [0, 1, 1])})",
            "an image of float64; wanted",
        ),
        (
            "def data(data): return from_arrays({'train': (np.zeros((3, 8, 8), 'u1'), [0, 1])})",
            "train has 3 images and 2",
        ),
        (
            "def data(data): return from_arrays({'train': (np.zeros((2, 8, 8), 'u1'), [0, -1])})",
            "example 1 has the label -1; there are 1 classes",
        ),
        (
            "def data(data): return from_arrays({'train': (np.zeros((2, 8), 'u1'), [0, 1])})",
            r"an image of shape \(8,\)",
        ),
        (
            "def data(data): return from_arrays({'train': (np.zeros((1, 8, 8), 'u1'), [2])}, ['a'])",
            "example 0 has the label 2; there are 1 classes",
        ),
        *(
            (
                f"def data(data): return from_arrays({{{split!r}: (np.zeros((2, 8, 8), 'u1'), [0, 1])}})",
                rf"names a split {split!r} \({type(split).__name__}\); wanted is text",
            )
            for split in (1, None, 2.5, b"train")
        ),
    ],
)
def test_a_dataset_of_another_form_is_refused(here, code, message):
    from vitzoo.data.open import open_source
    from vitzoo.data.settings import Data

    name = f"my_data_{zlib.crc32(code.encode())}"
    (here / f"{name}.py").write_text(f"import numpy as np\nfrom vitzoo.data.arrays import from_arrays\n{code}\n")
    with pytest.raises(vitzoo.UserError, match=message) as caught:
        open_source(Data(name=f"{name}:data"))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"data.name = {name}:data: ")  # and not by what `from_arrays` calls it


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def texts(data, text): ...", "must take one argument, the data section"),
        ("def texts(data): return 3", "gives `int`, which lacks `open`"),
        (
            "class texts:\n    def __init__(self, data): ...\n    def open(self, split): return ['a']",
            "lacks `info`, `ids`",
        ),
    ],
)
def test_texts_of_another_form_are_refused(here, code, message):
    from vitzoo.data.open import open_source
    from vitzoo.data.settings import Data

    name = f"my_texts_{zlib.crc32(code.encode())}"
    (here / f"{name}.py").write_text(code)
    with pytest.raises(vitzoo.UserError, match=message):
        open_source(Data(name=f"{name}:texts"))


@pytest.mark.parametrize("command", ["check", "show"])
@pytest.mark.parametrize("example", ["None", "[1, 2]", "{'label': 0}", "{'image': 3, 'label': 0}"])
def test_an_example_of_another_form_is_refused_by_the_commands_of_data_too(here, command, example, capsys):
    name = f"my_shown_{zlib.crc32(example.encode())}"
    (here / f"{name}.py").write_text(
        "import numpy as np\nfrom vitzoo.data.sources.base import Table\n"
        "def data(data):\n    rows = np.arange(2)\n"
        f"    return Table('mine', {{'image': 'image'}}, {{'train': rows}}, rows, lambda row: {example}, channels=3)\n"
    )
    assert main(["data", command, f"{name}:data"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"vitzoo: data.name = {name}:data: gives ")
    assert said.count("\n") == 1


def test_files_of_ones_own_are_a_dataset(here, tmp_path, capsys):
    from vitzoo.data.images import decode
    from vitzoo.data.open import open_source
    from vitzoo.data.settings import Data

    capsys.readouterr()
    for number in range(20):
        (tmp_path / "ab"[number % 2]).mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), (12 * number,) * 3).save(tmp_path / "ab"[number % 2] / f"{number:02}.png")
    assert main(["data", "check", "my_parts:my_files", f"--config.data.dir={tmp_path}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["classes"] == ["a", "b"]
    assert {split: one["n"] for split, one in found["splits"].items()} == {"train": 18, "test": 2}
    flags = ["--config.data.name=my_parts:my_files", f"--config.data.dir={tmp_path}", "--config.model.image_size=8"]
    assert main(["train", "--dry-run", "--config", "my_parts.py", *flags, "--config.data.batch_size=8"]) == 0
    source = open_source(Data(name="my_parts:my_files", dir=str(tmp_path)), "test")
    assert [decode(source[row]["image"]).shape for row in range(2)] == [(8, 8, 3)] * 2
    (tmp_path / "b" / "03.png").write_bytes(b"")
    assert main(["data", "check", "my_parts:my_files", f"--config.data.dir={tmp_path}"]) == 1
    assert "b/03.png (empty: 0 bytes)" in capsys.readouterr().out


def test_arrays_of_any_sizes_and_with_several_labels_are_a_dataset():
    from vitzoo.data.arrays import from_arrays

    images = [np.zeros((4, 5), np.uint8), np.full((6, 4, 3), 9, np.uint8), np.ones((3, 3, 1), np.uint8)]
    several = np.array([[0, 1], [1, 1], [0, 0]])
    source = from_arrays({"train": (images[:2], several[:2]), "test": (images[2:], several[2:])}).open("train+test")
    assert (source.info.n, source.info.classes, source.info.channels) == (3, ("0", "1"), 3)
    assert (source.info.image_shape, source.info.multi_label) == (None, True)
    assert source[1]["image"].shape == (6, 4, 3)
    assert source[1]["label"].tolist() == [1.0, 1.0]


BUILDER = """
import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

class %(title)s(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        image = tfds.features.Image(shape=(8, 8, 1), encoding_format="png")
        label = tfds.features.ClassLabel(names=["a", "b"])
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict({"image": image, "label": label}))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for index in range(4):
            yield index, {"image": %(image)s, "label": index %% 2}
"""


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("Image.new('L', (8, 8), index)", None),
        ("1 / 0", "its builder failed: ZeroDivisionError: division by zero"),
        ("__import__('tensorflow_of_tfds')", "TFDS writes such examples with TensorFlow, .* the extra `prepare`"),
    ],
)
def test_a_builder_class_of_ones_own_is_prepared_or_says_in_one_line_what_failed(here, tmp_path, image, message):
    from vitzoo.data.open import open_source
    from vitzoo.data.prepare import prepare
    from vitzoo.data.settings import Data

    number = zlib.crc32(image.encode())
    name, title = f"my_builder_{number}", f"MyPictures{number}"
    (here / f"{name}.py").write_text(BUILDER % {"title": title, "image": image})
    if message is None:
        prepare(f"{name}:{title}", dir=str(tmp_path))
        assert open_source(Data(name=f"{name}:{title}", dir=str(tmp_path))).info.classes == ("a", "b")
        return
    with pytest.raises(vitzoo.UserError, match=message) as caught:
        prepare(f"{name}:{title}", dir=str(tmp_path))
    assert "\n" not in str(caught.value)
