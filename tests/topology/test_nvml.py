"""GPUs as NVML tells of them: the real binding on a stand-in for the driver's library.

A real driver's answers may differ from the stand-in's. It is compiled here, and one process loads it for all tests.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import output
from made_machine import build

pytestmark = pytest.mark.slow  # takes a compiler, which an image of the course has not

SOURCE = Path(__file__).with_name("stand_in_nvml.cpp")

ASK = """
import json, os, sys
from course.topology import here

answers = {}
for name, variables in json.load(sys.stdin).items():
    root = variables.pop("root")
    os.environ.update(variables)
    found = here(root)
    answers[name] = {
        "origin": found.origin, "notes": found.notes, "matrix": found.matrix(True).to_dict(),
        "gpus": [[d.name, d.model, d.address, d.memory_bytes, d.gb_per_s] for d in found.gpus],
        "nvlinks": [[link.a, link.b, link.count, link.generation] for link in found.nvlinks],
        "switches": [[d.name, d.address] for d in found.of("nvswitch")],
        "numas": {d.name: found.numa_of(d.name) for d in found.gpus},
        "text": str(found),
    }
    for variable in variables:
        del os.environ[variable]
print(json.dumps(answers))
"""

GPUS = [f"00000000:{bus}:00.0" for bus in ("03", "04", "81", "82")]
FAR = [f"00000000:{bus}:00.0" for bus in ("C1", "C2")]


def both(a, b, count):
    return ";".join([f"{a} 0 {GPUS[b]};{b} 0 {GPUS[a]}"] * count)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    compiler = shutil.which("c++") or shutil.which("g++")
    if not compiler:
        pytest.skip("no C++ compiler is installed (Debian: apt-get install g++)")
    folder = tmp_path_factory.mktemp("nvml")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", folder / "libnvidia-ml.so.1", SOURCE], check=True
    )
    root = str(build(folder / "machine"))
    cases = {
        "direct": {"STAND_IN_GPUS": " ".join(GPUS), "STAND_IN_LINKS": f"{both(0, 1, 2)};{both(2, 3, 1)}"},
        "switched": {
            "STAND_IN_GPUS": " ".join(GPUS),
            "STAND_IN_LINKS": ";".join(f"{gpu} 2 00000000:a{at}:00.0" for gpu in range(4) for at in (0, 0, 1)),
        },
        "hidden": {"STAND_IN_GPUS": " ".join(GPUS[:2]), "STAND_IN_LINKS": "0 255 -;1 255 -"},
        "no distance": {"STAND_IN_GPUS": " ".join(FAR)},
    }
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    asked = {name: {**case, "root": root} for name, case in cases.items()}
    return json.loads(output(sys.executable, "-c", ASK, input=json.dumps(asked), env=environment, timeout=120))


def test_gpus_are_found_in_the_pcie_tree_and_told_more_of(answers):
    found = answers["direct"]
    assert found["origin"] == "measured here by /sys and /proc, NVML"
    assert [gpu[:4] for gpu in found["gpus"]] == [
        [f"GPU{at}", "Stand-in V100", f"0000:{bus}:00.0", 2**34] for at, bus in enumerate(("03", "04", "81", "82"))
    ]
    # /sys says that the slot of GPU3 is narrower than NVML does; NVML knows both ends.
    assert all(gpu[4] == pytest.approx(15.754, abs=1e-3) for gpu in found["gpus"])
    assert found["numas"] == {"GPU0": 0, "GPU1": 0, "GPU2": 1, "GPU3": 1}
    # NVLinks are counted once.
    assert found["nvlinks"] == [["GPU0", "GPU1", 2, 2], ["GPU2", "GPU3", 1, 2]]
    assert found["matrix"]["GPU0"] == {"GPU0": "X", "GPU1": "NV2", "GPU2": "SYS", "GPU3": "SYS", "mlx5_0": "PIX"}
    assert "2 to GPU1" in found["text"]


def test_nvlinks_to_switches_are_counted_for_each_and_hidden_ends_are_taken_for_one(answers):
    found = answers["switched"]
    assert found["switches"] == [["NVSwitch0", "0000:a0:00.0"], ["NVSwitch1", "0000:a1:00.0"]]
    assert found["nvlinks"][:2] == [["GPU0", "NVSwitch0", 2, 2], ["GPU0", "NVSwitch1", 1, 2]]
    assert found["matrix"]["GPU0"]["GPU3"] == "NV3"
    found = answers["hidden"]
    assert found["switches"] == [["NVSwitch0", ""]]
    assert found["matrix"]["GPU0"]["GPU1"] == "NV1"
    assert any("where NVLink 0 of GPU0 leads" in note for note in found["notes"])


def test_gpus_that_sys_does_not_show_have_unknown_distances(answers):
    found = answers["no distance"]
    assert found["matrix"]["GPU0"]["GPU1"] == "?"
    assert any("distances are unknown" in note for note in found["notes"])
