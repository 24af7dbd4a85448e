"""Documentation cannot drift: everything is described, links lead somewhere, and generated pages are up to date."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
import tallystick.aio
from tallystick import errors
from tallystick.cli.main import COMMANDS
from tallystick.engines.files.directory import open_files
from tallystick.engines.postgres.engine import open_postgres
from tallystick.engines.sqlite.engine import open_sqlite
from tallystick.event import profiles
from tests.docs import requirements

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CALL = re.compile(r"\b(\w+)\((\w+)=")
VARIABLE = re.compile(r"\bTALLY_[A-Z_]+\b")
NOT_OURS = frozenset({".git", ".venv", ".moto", ".hypothesis", "__pycache__", "out", "build", "dist", "demo-data"})
ONE_MACHINE = re.compile(
    r"(?<![\w.:])/(?:home|root|Users|mnt|work)/[\w.-]+"  # the folders of somebody
    r"|(?<![\w.])[A-Z]:\\Users\\"
    r"|\bindex-url\b|\bfind-links\b|/simple/?$|/repository/|\b(?:artifactory|nexus|devpi)\b",
    re.IGNORECASE | re.MULTILINE,
)
PORT = frozenset({"place", "directory", "url", "readonly", "create", "profile", "clock", "options"})


@pytest.fixture(scope="module")
def pages(root: Path) -> dict[str, str]:
    """Every page of the documentation, by its path from the root."""
    found = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in sorted(found)}


# --- what exists is described ----------------------------------------------------------------------------------------


def test_every_module_says_what_it_is_for(code: Any) -> None:
    """A module starts with a docstring, unless it is empty."""
    assert not [path for path, tree in code().items() if tree.body and not ast.get_docstring(tree)]


def test_every_public_name_says_what_it_is(code: Any) -> None:
    """Public functions and classes at the top of a shipped module have a docstring."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    silent = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in code("src").items()
        for node in tree.body
        if isinstance(node, kinds) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert not silent, "\n".join(silent)


def test_every_test_says_what_it_claims(code: Any) -> None:
    """A test has a docstring."""
    silent = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in code("tests", "src/tallystick/testing").items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert not silent, "\n".join(silent)


def public_errors() -> list[type[errors.TallyError]]:
    """Every error that has a rule of its own."""
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TallyError)]
    return [kind for kind in found if "template" in vars(kind) and kind is not errors.TallyError]


@pytest.mark.parametrize("kind", public_errors(), ids=lambda kind: kind.__name__)
def test_every_error_is_described(kind: type[errors.TallyError], pages: dict[str, str]) -> None:
    """It has a docstring, says what to do next, and is listed in docs/errors.md with its exit status."""
    assert kind.__doc__
    assert kind.advice
    assert f"| `{kind.__name__}` | {kind.exit_status} |" in pages["docs/errors.md"]


def test_every_error_on_the_page_exists(pages: dict[str, str]) -> None:
    """docs/errors.md lists only errors that exist."""
    listed = re.findall(r"^\| `(\w+)` \| \d \|", pages["docs/errors.md"], re.MULTILINE)
    assert sorted(listed) == sorted(kind.__name__ for kind in public_errors())


@pytest.mark.parametrize("kind", public_errors(), ids=lambda kind: kind.__name__)
def test_the_advice_of_an_error_can_be_followed(kind: type[errors.TallyError]) -> None:
    """The calls and commands that an error advises exist, with the options it names."""
    for name, option in CALL.findall(kind.advice):
        function = getattr(tallystick.Store, name, None) or getattr(tallystick, name)
        assert option in inspect.signature(function).parameters, f"{name}({option}=…)"
    assert set(re.findall(r"`tally (\w+)", kind.advice)) <= COMMANDS.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_described(command: str, pages: dict[str, str]) -> None:
    """docs/cli.md has a section for it."""
    assert f"\n## tally {command}\n" in pages["docs/cli.md"]


def options() -> Iterator[str]:
    """Every option that can be given to `open`, of the store, of its engines and of `aio`."""
    for function in (tallystick.open, tallystick.aio.open, open_files, open_sqlite, open_postgres):
        own = inspect.signature(function).parameters
        yield from (name for name in own if name not in PORT or (function is tallystick.open and name != "url"))


@pytest.mark.parametrize("option", sorted(set(options()) - {"options"}))
def test_every_option_is_described(option: str, pages: dict[str, str]) -> None:
    """docs/architecture.md has a line for it."""
    assert f"\n| `{option}` |" in pages["docs/architecture.md"]


@pytest.mark.parametrize("profile", profiles.PROFILES)
def test_every_profile_is_described(profile: str, pages: dict[str, str]) -> None:
    """docs/architecture.md names it with everything that it requires."""
    (line,) = re.findall(rf"^\| `{profile}` \|.*$", pages["docs/architecture.md"], re.MULTILINE)
    assert not [key for key in profiles.PROFILES[profile].required if f"`{key}`" not in line]


def test_every_environment_variable_is_described(root: Path, pages: dict[str, str]) -> None:
    """A variable that the package reads is on some page."""
    sources = [path.read_text("utf-8") for path in (root / "src").rglob("*.py")]
    named = {name for text in sources for name in VARIABLE.findall(text)}
    assert not [name for name in named if not any(name in text for text in pages.values())]


@pytest.mark.parametrize("folder", ["src/tallystick/engines", "src/tallystick"])
def test_every_part_is_on_the_architecture_page(folder: str, root: Path, pages: dict[str, str]) -> None:
    """Each layer and each engine is named there."""
    found = [path.name for path in (root / folder).iterdir() if path.suffix in ("", ".py") and path.name[0] != "_"]
    parts = [name if "." in name else f"{name}/" for name in found]
    text = pages["docs/architecture.md"]
    assert not [part for part in parts if part not in text and part.removesuffix(".py") not in text]


# --- what is linked exists -------------------------------------------------------------------------------------------


def links(pages: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Every link between pages: its page and its target."""
    for page, text in pages.items():
        for target in LINK.findall(FENCED.sub("", text)):
            if "://" not in target:
                yield page, target


def anchor(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def test_links_lead_somewhere(root: Path, pages: dict[str, str]) -> None:
    """Files exist, and so do the headings that are linked."""
    broken = []
    for page, target in links(pages):
        name, _, part = target.partition("#")
        path = (root / page).parent / name if name else root / page
        if not path.exists():
            broken.append(f"{page}: {target}")
        elif part and part not in map(anchor, HEADING.findall(path.read_text("utf-8"))):
            broken.append(f"{page}: {target} has no such heading")
    assert not broken, "\n".join(broken)


def test_every_page_can_be_reached(root: Path, pages: dict[str, str]) -> None:
    """A page that no other page links to is not documentation."""
    linked = {((root / page).parent / target.partition("#")[0]).resolve() for page, target in links(pages)}
    assert not [page for page in pages if page != "README.md" and (root / page).resolve() not in linked]


@pytest.mark.parametrize("part", ["Context", "Decision", "Consequence"])
def test_every_decision_has_its_parts(part: str, pages: dict[str, str]) -> None:
    """Context, decision and consequence."""
    decisions = {page: text for page, text in pages.items() if page.startswith("docs/decisions/")}
    assert decisions
    assert not [page for page, text in decisions.items() if f"**{part}.**" not in text]


# --- what is generated is up to date ---------------------------------------------------------------------------------


def test_the_page_of_requirements_is_up_to_date(root: Path) -> None:
    """`python -m tests.docs.requirements` would change nothing."""
    assert requirements.main(["--check", "--root", str(root)]) == 0


def test_no_test_names_a_row_that_does_not_exist(root: Path) -> None:
    """A wrong number in a docstring would be a requirement that nobody tests."""
    assert not requirements.unknown(root)


def test_a_row_is_found_in_names_and_docstrings(tmp_path: Path) -> None:
    """The generator sees functions, methods and classes, and only tests."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "requirements-rows.json").write_text('{"LH-01": "a", "LH-02": "b", "EVT-01": "c"}')
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(
        'def test_lh_01_holds():\n    """Yes."""\n\n'
        'class TestX:\n    def test_it(self):\n        """EVT-01: yes."""\n\n'
        'def other():\n    """LH-02"""\n'
    )
    page = requirements.page(tmp_path)
    assert "| LH-01 | a | `tests/test_x.py::test_lh_01_holds` |" in page
    assert "| EVT-01 | c | `tests/test_x.py::TestX::test_it` |" in page
    assert "| LH-02 | b | not yet |" in page
    assert "2 of 3 rows" in page
    assert requirements.main(["--check", "--root", str(tmp_path)]) == 1


# --- what must not be there ------------------------------------------------------------------------------------------


def text_files(folder: Path) -> Iterator[Path]:
    """Every file of ours, skipping folders with the files of others."""
    for path in sorted(folder.iterdir()):
        if path.name in NOT_OURS or path.name.endswith(("_cache", ".egg-info")):
            continue
        if path.is_dir():
            yield from text_files(path)
        elif path != Path(__file__):
            yield path


def test_nothing_names_one_machine(root: Path) -> None:
    """No personal folder and no package index: everything here works elsewhere."""
    wrong = []
    for path in text_files(root):
        text = path.read_bytes().decode("utf-8", "ignore")
        if found := ONE_MACHINE.search(text):
            line = text.count("\n", 0, found.start()) + 1
            wrong.append(f"{path.relative_to(root)}:{line}: {found.group()}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("text", ["/home/ada/log", "see /Users/ada", "--index-url x", "https://host/repository/py"])
def test_a_machine_is_recognised(text: str) -> None:
    """The pattern above finds what it should."""
    assert ONE_MACHINE.search(text)
