"""What a user meant by a name that there isn't."""

import pytest

from vitzoo.hints import closest

KNOWN = [
    *(
        "seed",
        "total_steps",
        "total_epochs",
        "min_steps",
        "init_from",
        "accumulate",
        "data",
        "model",
        "model.num_heads",
    ),
    *("data.name", "data.batch_size", "data.dir", "data.workers", "preprocessing.resize", "objective.label_smoothing"),
    *("optimizer.learning_rate", "optimizer.weight_decay", "schedule.warmup_steps", "checkpoint.keep"),
    *("checkpoint.every_steps", "log.every_steps", "evaluate.EVALUATOR.every_steps"),
]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--batch-size", "data.batch_size"),
        ("BatchSize", "data.batch_size"),
        ("data_dir", "data.dir"),
        ("--lr", "optimizer.learning_rate"),
        ("wd", "optimizer.weight_decay"),
        ("learnign_rate", "optimizer.learning_rate"),
        ("epochs", "total_epochs"),
        ("num-epochs", "total_epochs"),
        ("max_steps", "total_steps"),
        ("steps", "total_steps"),
        ("warmup", "schedule.warmup_steps"),
        ("num_workers", "data.workers"),
        ("heads", "model.num_heads"),
        ("dataset", "data"),
        ("log_every", "log.every_steps"),
        ("eval-every", "evaluate.EVALUATOR.every_steps"),
        ("gradient_accumulation_steps", "accumulate"),
        ("init", "init_from"),
        ("resume", None),  # no word for what resumes by itself; `resize` is another matter
        ("checkpoint", None),
        ("output_dir", None),
        ("", None),
    ],
)
def test_a_name_is_taken_for_the_one_in_another_spelling_by_initials_by_a_slip_or_by_a_word(typed, meant):
    assert closest(typed, KNOWN) == meant
