"""Modules import only lower floors or their own package, and the lowest floors need nothing but JAX's own libraries."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import vitzoo

ROOT = Path(vitzoo.__file__).parent

# from top to bottom; names on one floor don't import each other
FLOORS = [
    {"__main__"},
    {"cli"},
    {"api"},
    {"inference", "training"},
    {"evaluation"},
    {"weights"},
    {"checkpoints"},
    {"planning"},
    {"config"},
    {"steps"},
    {"objectives", "optim", "data", "parallel"},
    {"models"},
    {"decoding"},
    {"nn"},
    {"own_values"},
    {"registry", "schema", "outputs", "argument_types"},
    {"overwriting"},
    {"fonts", "paths", "staging", "checksums", "streams"},
    {"strict_json", "literals", "limits"},
    {"errors", "jax_internals", "spelling", "version"},
]
HEIGHT = {name: -depth for depth, names in enumerate(FLOORS) for name in names}
PARTS = {"own_values", "registry", "schema", "limits", "literals"}
BARE = {"nn", "decoding", "models", "objectives", "optim", "steps"} | PARTS | FLOORS[-1]
BARE_MAY_IMPORT = {"jax", "flax", "optax", "numpy", "vitzoo", *sys.stdlib_module_names}


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] != "configs")


def floor(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def package(path: Path) -> str:
    return ".".join(("vitzoo", *path.relative_to(ROOT).parts[:-1]))


@functools.cache
def imports(path: Path) -> set[str]:
    """Every module that a file imports, in functions too; not what only type checkers see."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package(path).split(".")[: len(package(path).split(".")) - node.level + 1], base])
            # `from vitzoo import registry` names a module, or a name that `vitzoo` resolves on first use
            found |= {f"{base}.{alias.name}" for alias in node.names} if base.strip(".") == "vitzoo" else {base}
    return found


def floors_imported(path: Path) -> set[str]:
    inside = {name.split(".")[1] for name in imports(path) if name.startswith("vitzoo.")}
    return inside & set(HEIGHT)


def test_every_module_imports_only_lower_floors_or_its_own_package():
    assert floors_imported(ROOT / "__init__.py") == set()
    above = {
        str(path.relative_to(ROOT)): {name for name in floors_imported(path) if HEIGHT[name] >= HEIGHT[floor(path)]}
        - {floor(path)}
        for path in modules()
        if path != ROOT / "__init__.py"
    }
    assert {path: names for path, names in above.items() if names} == {}


def test_no_import_runs_in_a_circle_in_functions_or_for_type_checkers_either():
    names = {path: ".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in modules()}
    files = {name.removesuffix(".__init__"): path for path, name in names.items()}
    imported = {}
    for name, path in files.items():
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, path
                pairs = [(node.module, f"{node.module}.{alias.name}") for alias in node.names]
                found |= {module if module in files else base for base, module in pairs}
        imported[name] = found & files.keys() - {name}
    while leaves := [name for name, found in imported.items() if not found & imported.keys()]:
        for name in leaves:
            del imported[name]
    assert sorted(imported) == []  # what is left is in a circle, or leads to one


def test_models_and_steps_need_only_jax_flax_optax_and_numpy():
    others = {
        str(path.relative_to(ROOT)): {name.split(".")[0] for name in imports(path)} - BARE_MAY_IMPORT
        for path in modules()
        if floor(path) in BARE
    }
    assert {path: names for path, names in others.items() if names} == {}


def test_what_jax_keeps_to_itself_is_read_in_one_place():
    found = [
        path for path in modules() if any("_src" in name for name in imports(path)) or "num_carry" in path.read_text()
    ]
    assert [path.name for path in found] == ["jax_internals.py"]


def test_every_folder_has_a_floor():
    assert {floor(path) for path in modules()} - {"__init__"} <= set(HEIGHT)


def test_packages_import_nothing_until_a_name_is_used():
    for path in (path for path in modules() if path.name == "__init__.py"):
        tree = ast.parse(path.read_text())
        eager = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {alias.name for node in eager if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module for node in eager if isinstance(node, ast.ImportFrom)}
        assert names <= {"importlib", "typing", "__future__"}, path


def test_import_vitzoo_imports_nothing_heavy():
    code = (
        "import sys, vitzoo; vitzoo.config; vitzoo.__version__; dir(vitzoo)\n"
        "print(sorted({'jax', 'flax', 'numpy', 'optax', 'absl', 'ml_collections'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_the_names_of_the_package_resolve():
    assert {name for name in vitzoo.__all__ if getattr(vitzoo, name, None) is None} == set()
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        vitzoo.trian  # noqa: B018
