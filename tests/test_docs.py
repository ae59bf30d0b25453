"""The README and the pages of `docs/`: short enough, linked to what exists, and with commands that would be taken."""

import importlib
import re
import shlex
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest
import yaml

from vitzoo.cli.arguments import Parser, split_overrides
from vitzoo.config.fields import every_part, settings
from vitzoo.config.files import find_config

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts"))

import settings_pages  # noqa: E402

README, DOCS = ROOT / "README.md", ROOT / "docs"
WRITTEN = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
CURRENT = [file for file in WRITTEN if file.name != "CHANGELOG.md"]  # whose commands are those of now
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SETTINGS = set(settings(every_part()))


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them of those that have words and digits."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_the_readme_is_short():
    text = README.read_text()
    lines = text.splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 120
    assert len(text.encode()) <= 10_000


def test_the_readme_sets_up_and_tests_as_the_gate_does():
    blocks = [body for language, body in FENCE.findall(README.read_text()) if language == "sh"]
    gate = (ROOT / ".ci" / "run").read_text()
    install, run = blocks[0].splitlines()[-1], blocks[1].strip()
    assert install.removeprefix("pip install ") in gate
    assert f"\n{run}\n" in gate


@pytest.mark.parametrize("file", WRITTEN, ids=name_of)
def test_every_relative_link_leads_somewhere(file):
    text = FENCE.sub("", file.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target) or target.startswith("#vitzoo."):  # an address, or a name of the Python API
            continue
        path, _, anchor = target.partition("#")
        there = (file.parent / path).resolve() if path else file
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there.read_text()), target


def test_every_page_stands_in_the_navigation():
    listed = re.findall(r"[\w/]+\.md", yaml.safe_dump(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert sorted(listed) == sorted(there)


def test_the_pages_of_settings_are_those_of_the_code():
    for path, text in settings_pages.pages().items():
        assert (DOCS / path).read_text() == text, "run python scripts/settings_pages.py"


def test_the_generated_pages_have_every_setting():
    pages = settings_pages.pages()
    listed = {
        name.replace("evaluate.NAME.", "evaluate.EVALUATOR.")
        for text in pages.values()
        for name in re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE)
    }
    sections = {name.rpartition(".")[0] for name in SETTINGS}
    assert listed == SETTINGS - sections | {"model.variant"}  # which no dataclass of settings holds
    for text in pages.values():  # a bar within a cell would begin another
        rows = re.findall(r"^\| `.*$", text, re.MULTILINE)
        assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows)


def test_what_the_python_api_lists_is_there():
    for name in re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(), re.MULTILINE):
        assert resolve_name(name.rpartition(".")[0] + ":" + name.rpartition(".")[2]) is not None


def commands(file: Path) -> list[str]:
    """Every command of vitzoo on a page: in blocks of shell, and as code within a line."""
    text = file.read_text()
    blocks = "\n".join(body for language, body in FENCE.findall(text) if language == "sh")
    typed = [line for line in blocks.replace("\\\n", " ").splitlines() if line.startswith("vitzoo ")]
    return typed + re.findall(r"`(vitzoo (?:train|eval|predict|generate|sweep|data|convert)\b[^`]* --[^`]*)`", text)


@pytest.mark.parametrize(
    "file", [*CURRENT, "generated"], ids=lambda file: file if file == "generated" else name_of(file)
)
def test_every_command_is_one_that_vitzoo_takes(file, tmp_path):
    if file == "generated":
        file = tmp_path / "shipped.md"
        file.write_text(settings_pages.pages()["settings/shipped.md"])
    for line in commands(file):
        words = shlex.split(line, comments=True)[1:]
        if "..." in words or words[0].startswith("-"):
            continue
        command = importlib.import_module(f"vitzoo.cli.{words[0]}")
        parser = Parser(f"vitzoo {words[0]}", "x", "")
        command.arguments(parser)
        rest, overrides = split_overrides(words[1:])
        parsed = parser.parse(rest)
        for override in overrides:
            assert known(override.partition("=")[0]), line
        config = getattr(parsed, "config", None)
        if config and not Path(config.partition(":")[0]).suffix:
            assert find_config(config), line


def known(setting: str) -> bool:
    """Whether there is a setting of this dotted name; of an evaluator's `data`, one of that section."""
    found = re.fullmatch(r"evaluate\.\w+\.(data\..*|.*)", setting)
    inner = found[1] if found else setting
    return (inner if inner.startswith("data.") else f"evaluate.EVALUATOR.{inner}" if found else setting) in SETTINGS
