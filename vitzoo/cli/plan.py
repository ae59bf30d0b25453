"""`vitzoo plan`."""

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitzoo.cli.arguments import Parser, typed
from vitzoo.cli.output import Result, table
from vitzoo.errors import UserError
from vitzoo.schema import to_json

if TYPE_CHECKING:
    from vitzoo.config import Resolved
    from vitzoo.config.model import ModelChoice
    from vitzoo.data.inputs import Inputs
    from vitzoo.planning.estimate import Estimate
    from vitzoo.planning.plan import Plan

TAKES_CONFIG = True
EXAMPLES = """\
Topologies: cpu:8; TPU slices v5e:16x16, v6e:16x16, v5p:4x4x4, v4:4x4x4; GPUs h100:8, h200:8, a100:16, a100-80gb:16.
What the config states of mesh, remat and accumulate is kept; the rest is searched. The data aren't needed.
With the extra `plan`, the best setting for a TPU is compiled as well: minutes, no TPU needed.

examples:
  vitzoo plan --config vit/imagenet:G/14 --topology v5e:16x16 --config.data.batch_size=4096
  vitzoo plan --config gpt/gpt2:1558M --topology h100:8 --price-per-device-hour 2.5
  vitzoo plan --config t5/c4:xl --topology v5p:4x4x4 --compile 2"""
GIB = 2**30


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("--config", metavar="FILE|NAME[:ARG]", required=True, help="the experiment")
    parser.add_argument("--topology", metavar="KIND:SIZE", required=True, help="the devices: v5e:16x16, h100:8, cpu:8")
    parser.add_argument("--config.KEY", metavar="VALUE", help="change one setting", dest="_")
    parser.add_argument(
        "--examples", metavar="N", type=typed("--examples", int, minimum=1), help="rows of an epoch, where unknown"
    )
    parser.add_argument(
        "--price-per-device-hour",
        metavar="P",
        type=typed("--price-per-device-hour", float, minimum=0),
        help="what a device costs, in any currency",
    )
    parser.add_argument(
        "--compile",
        metavar="N",
        default=0,
        type=typed("--compile", int, minimum=0),
        help="compile N runners-up too (TPUs, the extra `plan`)",
    )
    parser.add_argument("--formula", action="store_true", help="compile nothing: seconds instead of minutes")


def run(args: argparse.Namespace) -> Result:
    """Forecasts memory, work and time."""
    from vitzoo.config import resolve
    from vitzoo.planning import topology, tpu_compiler
    from vitzoo.planning.plan import plan

    where = topology.parse(args.topology)
    if args.compile and (args.formula or where.device.platform != "tpu"):
        raise UserError(
            "--compile", args.compile, f"{'--formula' if args.formula else where} compiles nothing; leave it out"
        )
    if args.compile and not tpu_compiler.is_available(where):
        raise UserError("--compile", args.compile, "needs the compiler of the extra `plan`: pip install -e '.[plan]'")
    stated = resolve(args.config, overrides=args.overrides, complete=False)
    resolved, choice, inputs = _of_checkpoint(stated, args.overrides)
    made = plan(
        resolved,
        where,
        choice=choice,
        inputs=inputs,
        examples=args.examples,
        frozen=_frozen(resolved),
        price=args.price_per_device_hour,
        runners_up=args.compile,
        compiles=not args.formula,
        say=(lambda text: None) if args.json else (lambda text: print(text, flush=True)),
    )
    if not args.json:
        print("\n".join([*_figures(made), "", _settings(made), *_remarks(made, args.formula)]))
    return Result(made.to_json())


def _of_checkpoint(resolved: "Resolved", overrides: list[str]) -> "tuple[Resolved, ModelChoice | None, Inputs | None]":
    """The config with the rows of the checkpoint to start from, where one is named, its model, and how it reads
    examples, as in training.
    """
    experiment = resolved.experiment
    given = any(text.partition("=")[0] == "init_from" for text in overrides)
    of_file = resolved.sources.get("init_from") == "file" and not given
    placeholder = of_file and experiment.init_from.isupper() and not Path(experiment.init_from).exists()
    if not experiment.init_from or (of_file and experiment.model.name) or placeholder:
        return resolved, None, None
    from vitzoo.config.experiment import inputs_of
    from vitzoo.training.fits import check_fits
    from vitzoo.training.pretrained import Pretrained

    pretrained = Pretrained.open(experiment.init_from, experiment.model.changes)
    choice = experiment.model.over(pretrained.model)
    check_fits(choice, resolved)
    inputs = pretrained.inputs(inputs_of(experiment), resolved)
    settings = {name: one.settings for name, one in inputs.processors.items()}
    values = {**resolved.values, "inputs": {name: to_json(one) for name, one in settings.items()}}
    experiment = dataclasses.replace(experiment, inputs=settings)
    return dataclasses.replace(resolved, experiment=experiment, values=values), choice, inputs


def _frozen(resolved: "Resolved") -> dict[str, Any]:
    """What the checkpoints that the objective learns from say of themselves, but for those that a file names and that
    aren't here.
    """
    from vitzoo.schema import checkpoints_of
    from vitzoo.weights.frozen import locate_frozen

    found = {}
    for name, checkpoint in checkpoints_of(resolved.experiment.objective).items():
        try:
            found[name] = locate_frozen(name, checkpoint).description
        except UserError:
            if resolved.sources.get(f"objective.{name}") == "flag":
                raise
    return found


def _figures(made: "Plan") -> list[str]:
    best, drawn, where = made.winner, made.blueprint, made.topology
    memory, known = best.memory, made.compiled.get(best.setting)
    name = f"{drawn.choice.name} {drawn.choice.variant}".strip()
    unit, divisor = ("GiB", GIB) if memory.peak >= GIB / 2 else ("MiB", 2**20)
    room = f"of {where.capacity / divisor:,.2f} {unit}"
    parts = [
        ("parameters", memory.parameters, "formula", "exact"),
        ("optimizer", memory.optimizer, "formula", "exact"),
        ("gradients", memory.gradients, "formula", ""),
        ("batch", memory.batch, "formula", ""),
        ("activations", memory.activations, "formula", ""),
        ("peak", memory.peak, "formula", room),
    ]
    if known is not None:
        error = f"; the formula is off by {memory.peak / known.peak - 1:+.0%}"
        parts.append(("peak", known.peak, "xla", f"{room}{error}"))
    shown = [[f"  {label}", f"{size / divisor:,.3f}", f"[{source}]", note] for label, size, source, note in parts]
    return [
        f"{name}: {drawn.parameters:,} parameters, {best.batch_size:,} examples a step, {drawn.dtype}",
        f"{where}: {where.count:,} device{'s' * (where.count != 1)}, mesh {best.setting.shown_mesh}, "
        f"remat {best.setting.remat}, accumulate {best.setting.accumulate}",
        "",
        f"{unit} on each device",
        table(shown, right=(1,)),
        "",
        *_work(made),
    ]


def _work(made: "Plan") -> list[str]:
    best, steps = made.winner, made.blueprint.steps
    sent = best.traffic
    kinds = {
        "weights": sent.gathers,
        "gradients": sent.reductions + sent.sums,
        "layers": sent.tensor,
        "rows": sent.rows,
    }
    of_which = ", ".join(f"{name} {size / GIB:,.2f}" for name, size in kinds.items() if size)
    lines = [
        f"FLOPs a step   {made.flops:.4g} [formula]",
        f"sent a step    {sent.total / GIB:,.2f} GiB by each device{f' ({of_which})' if of_which else ''} [formula]",
    ]
    if best.seconds_min is None:
        return [*lines, f"time           no peak is known for {made.topology.device.name}: measure a step"]
    limits = ", ".join(f"{name} {seconds:.3g}" for name, seconds in best.seconds.items())
    lines.append(f"time a step    at least {best.seconds_min:.3g} s ({limits}) [formula]")
    if made.days is None or made.device_hours is None or steps is None:
        priced = "" if made.price is None else ", nor the price of it"
        return [*lines, f"in all         not known{priced}: how many rows an epoch has; state it: --examples N"]
    money = "" if made.cost is None else f", {made.cost:,.2f} at {made.price:g} an hour"
    span = f"{steps:,} steps: at least {_span(made.days)}, {made.device_hours:,.4g} device-hours{money}"
    return [*lines, f"in all         {span} [formula]"]


def _span(days: float) -> str:
    """A time in the largest unit of which it is one at least."""
    for size, unit in ((1, "days"), (24, "hours"), (24 * 60, "minutes")):
        if days * size >= 1:
            return f"{days * size:,.3g} {unit}"
    return f"{days * 86_400:.3g} s"


def _settings(made: "Plan") -> str:
    from vitzoo.planning.plan import SHOWN

    header = ["setting", "remat", "accumulate", "GiB formula", "GiB xla", "s/step at least", "bound by"]
    return table([header, *(_setting(made, one) for one in made.ranked[: SHOWN + 1])], right=(2, 3, 4, 5))


def _setting(made: "Plan", one: "Estimate") -> list[str]:
    known = made.compiled.get(one.setting)
    xla = "-" if known is None else f"{known.peak / GIB:,.2f}"
    seconds = "-" if one.seconds_min is None else f"{one.seconds_min:.3g}"
    setting = one.setting
    memory = f"{one.memory.peak / GIB:,.2f}"
    return [setting.shown_mesh, setting.remat, str(setting.accumulate), memory, xla, seconds, one.bound or "-"]


def _remarks(made: "Plan", formula: bool) -> list[str]:
    from vitzoo.planning import tpu_compiler

    where, lines = made.topology, [""]
    lines += [
        f"fallback  {one.leaf}: {one.size} does not divide over {one.axis}:{made.winner.setting.sizes[one.axis]}; "
        + ("the leaf stays whole" if one.placed is None else f"its {one.placed} is cut instead")
        for one in made.fallbacks
    ]
    lines += [f"note      {note}" for note in made.blueprint.notes]
    if where.device.platform == "tpu" and not formula and not tpu_compiler.is_available(where):
        lines.append("note      by formula alone: pip install 'vitzoo[plan]' compiles it, without a TPU")
    if where.device.platform == "gpu":
        lines.append("note      JAX takes 75 % of a GPU's memory; XLA_PYTHON_CLIENT_MEM_FRACTION=0.9 gives more")
    return [*lines, f"run it    vitzoo train ... {made.winner.setting.flags}"]
