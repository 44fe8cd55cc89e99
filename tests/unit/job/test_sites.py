"""The example site files, and the page about them."""

import re

from ddl.job.site import Site
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


def test_site_examples_are_listed_and_valid(tmp_path):
    assert {path.stem for path in SITES.glob("*.toml")} == set(EXAMPLES)
    assert set(re.findall(r"\]\(([\w-]+)\.toml\)", PAGE)) == set(EXAMPLES)
    for name, kind in EXAMPLES.items():
        example, file = SITES / f"{name}.toml", tmp_path / f"{name}.toml"
        site = Site.read(example)
        assert (site.scheduler, site.container) == kind
        file.write_text(re.sub(r"^# (\w+ = )", r"\1", example.read_text(), flags=re.MULTILINE))
        Site.read(file)
