"""Starts a second training in the folder of one that runs; then kills the first and starts again.

    python scripts/drills/two_runs.py [--count 5] [--workdir DIR]

Must hold: the second is refused (exit code 2, one line that names the first's process) and changes nothing; once the
first is dead, the folder is free.
"""

import sys

import common

LONG = [
    "--config.total_steps=100000",
    "--config.checkpoint.every_steps=100000",
    "--config.evaluate.test.every_steps=99999",
]


def main(given: list[str] | None = None) -> int:
    options = common.arguments(__doc__, 5, given)
    score = common.Score("second runs in one folder", options.count)
    with common.folder_of(options) as folder:
        workdir, other = folder / "run", folder / "second"
        for _ in range(options.count):
            first = common.start(workdir, flags=LONG)
            begun = common.wait_for(lambda: "step 1/" in common.log_of(workdir).read_text(), first)
            other.unlink(missing_ok=True)
            other.symlink_to(workdir)  # the same folder by another name, for a log of its own
            code = common.ends(common.start(other, flags=LONG))[0]
            line = common.log_of(other).read_text().strip().splitlines()[-1:]
            wrong = ["the first did not begin"] * (not begun) + [f"exit code {code}"] * (code != 2)
            wrong += [f"says {line}"] * (f"is in use by process {first[0].pid}" not in "".join(line))
            wrong += ["the first ended"] * (first[0].poll() is not None)
            first[0].kill()
            first[0].wait()
            score.add(f"exit code {code}: {''.join(line)}", wrong)
    return score.end()


if __name__ == "__main__":
    sys.exit(main())
