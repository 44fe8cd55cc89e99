"""The example site files, and the page about them."""

import re
from pathlib import Path

import pytest
from ddl.launcher.site import KEYS, Site
from ddl.launcher.sitekey import NEEDS

SITES = Path(__file__).resolve().parents[2] / "containers" / "sites"
EXAMPLES = {
    "laptop": ("local", "none"),
    "gpu-node-docker": ("local", "docker"),
    "slurm-singularity": ("slurm", "singularity"),
    "slurm": ("slurm", "none"),
    "two-hosts": ("namespaces", "none"),
}
PAGE = (SITES / "README.md").read_text()


def section(heading):
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_every_example_is_listed():
    assert {path.stem for path in SITES.glob("*.toml")} == set(EXAMPLES)
    assert set(re.findall(r"\]\(([\w-]+)\.toml\)", PAGE)) == set(EXAMPLES)


@pytest.mark.parametrize("name, kind", EXAMPLES.items())
def test_an_example_is_valid(name, kind):
    site = Site.read(SITES / f"{name}.toml")
    assert (site.scheduler, site.container) == kind


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_an_example_leaves_out_is_valid_too(name, tmp_path):
    text = (SITES / f"{name}.toml").read_text()
    file = tmp_path / "site.toml"
    file.write_text(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    Site.read(file)


def test_the_table_of_keys_is_complete():
    keys = re.findall(r"^\| `(\w+)` \|", section("All keys"), re.MULTILINE)
    assert sorted(keys) == sorted(KEYS)


def test_the_table_says_what_a_key_needs():
    _, *others = section("All keys").split("| | | |\n")
    parts = [set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)) for part in others]
    for part, keys in zip(parts, NEEDS.values(), strict=True):
        assert set(keys) <= part


def test_the_table_has_the_defaults():
    row = r"^\| `(\w+)` \| `?(\"[^\"]+\"|\d+)`? \|"
    for key, default in re.findall(row, section("All keys"), re.MULTILINE):
        assert default.strip('"') == str(getattr(Site(), key)), key


def test_every_key_that_a_question_answers_is_one():
    table = section("What to ask the cluster")
    keys = re.findall(r"`(\w+)`", "\n".join(line.split("|")[-2] for line in table.splitlines() if line.startswith("|")))
    assert keys and set(keys) <= set(KEYS)
