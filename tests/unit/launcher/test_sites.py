"""The example site files, and the page about them."""

import json
import re

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


def test_every_example_is_listed_and_valid_with_what_it_leaves_out_too(tmp_path):
    assert {path.stem for path in SITES.glob("*.toml")} == set(EXAMPLES)
    assert set(re.findall(r"\]\(([\w-]+)\.toml\)", PAGE)) == set(EXAMPLES)
    for name, kind in EXAMPLES.items():
        example, file = SITES / f"{name}.toml", tmp_path / f"{name}.toml"
        site = Site.read(example)
        assert (site.scheduler, site.container) == kind
        file.write_text(re.sub(r"^# (\w+ = )", r"\1", example.read_text(), flags=re.MULTILINE))
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
