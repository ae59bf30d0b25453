"""Config files written by a test."""

import textwrap

import pytest

EXPERIMENT = """
import vitzoo

def get_config(arg="S/16"):
    config = vitzoo.config.default()
    config.total_epochs = 90
    config.model = dict(name="vit", variant=arg)
    config.objective = dict(name="classification", label_smoothing=0.1)
    config.data = dict(name="imagenet2012", split="train[:99%]", batch_size=1024)
    config.optimizer = dict(name="adamw", learning_rate=1e-3, weight_decay=0.1, beta2=0.95)
    config.schedule = dict(name="cosine", warmup_steps=10_000)
    config.checkpoint = dict(every_steps=1000, keep_best="val/accuracy")
    config.evaluate = dict(val=dict(name="classification", split="validation", every_epochs=1))
    return config
"""


@pytest.fixture
def write(tmp_path):
    """Writes a config file and gives its path."""

    def write(text: str = EXPERIMENT, name: str = "experiment.py") -> str:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


@pytest.fixture
def changed(write):
    """Writes the usual config with more lines before its `return`, and gives its path."""

    def changed(*lines: str) -> str:
        more = "".join(f"    {line}\n" for line in lines)
        return write(EXPERIMENT.replace("    return config", f"{more}    return config"))

    return changed
