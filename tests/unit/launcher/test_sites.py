"""The example site files, and the page about them."""

import json
import re

import pytest

from ddl.launcher.site import CONTAINER, HOSTS, KEYS, SLURM, Site
from helpers import ROOT

SITES = ROOT / "containers" / "sites"
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


def test_the_table_has_every_key_with_its_default():
    table = [line.split(" | ") for line in section("All keys").splitlines() if line.startswith("| `")]
    defaults = {row[0].strip("| `"): row[1] for row in table}
    assert list(defaults) == list(KEYS)
    constants = {name: shown.strip("`") for name, shown in defaults.items() if re.fullmatch(r'`".*"`|\d+', shown)}
    assert constants == {name: json.dumps(KEYS[name].default) for name in constants}


def test_the_table_groups_keys_by_what_they_need():
    parts = [re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) for part in section("All keys").split("| | | |\n")]
    needs = [{KEYS[name].metadata["needs"] for name in part} - {()} for part in parts]
    assert needs == [set(), *({(key, *values)} for key, *values in (SLURM, HOSTS, CONTAINER))]


def test_every_key_that_a_question_answers_is_one():
    table = section("What to ask the cluster")
    keys = re.findall(r"`(\w+)`", "\n".join(line.split("|")[-2] for line in table.splitlines() if line.startswith("|")))
    assert keys and set(keys) <= set(KEYS)
