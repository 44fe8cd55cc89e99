"""Variables that are on a GPU, and the first use of one, without one."""

import re

import pytest

from ddl.records.paths import source_dir

tf = pytest.importorskip("tensorflow")
hvd = pytest.importorskip("horovod.tensorflow")

from course.training import gpu, horovod_utils, precision

LITERAL = re.compile(r"broadcast_variables\([^)]*inplace\s*=\s*True")


@pytest.mark.parametrize("gpus, built, in_place", [([], 0, True), (["GPU:0"], 0, False), (["GPU:0"], 21605, True)])
def test_broadcast_is_in_place_where_horovod_can(monkeypatch, gpus, built, in_place):
    asked = {}
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
    monkeypatch.setattr(hvd, "nccl_built", lambda: built)
    monkeypatch.setattr(hvd, "broadcast_variables", lambda variables, **options: asked.update(options))
    horovod_utils.broadcast([])
    assert asked == {"root_rank": 0, "inplace": in_place}


def test_no_script_or_lesson_asks_for_a_broadcast_in_place():
    root = source_dir().parent
    folders = (source_dir(), root / "lessons", root / "benchmarks", root / "docs")
    texts = [file for folder in folders for kind in ("py", "md") for file in folder.rglob(f"*.{kind}")]
    assert [
        file.name for file in texts if "broadcast_variables(" in (text := file.read_text()) and LITERAL.search(text)
    ] == []


BUILT = ["sm_50", "sm_60", "sm_70", "sm_75", "compute_80"]  # TensorFlow 2.15.1 for GPUs


@pytest.mark.parametrize(
    "card, has", [((7, 5), True), ((7, 9), True), ((8, 0), False), ((9, 0), False), ((5, 2), True)]
)
def test_machine_code_serves_cards_of_its_major_version(card, has):
    assert gpu.has_machine_code(BUILT, card) == has


def test_first_use_is_noted_until_the_driver_has_kept_something(monkeypatch, tmp_path):
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: {"cuda_compute_capabilities": BUILT})
    monkeypatch.setenv("CUDA_CACHE_PATH", str(tmp_path / "cache"))
    assert str(tmp_path) in gpu.first_use((9, 0)) and not gpu.first_use((7, 0))
    (tmp_path / "cache/a").mkdir(parents=True)
    assert not gpu.first_use((9, 0))


def test_recorded_precision_is_that_of_the_products(monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["GPU:0"])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: {"compute_capability": (9, 0)})
    try:
        for asked, recorded in (("float32", "float32"), ("tf32", "tf32")):
            assert precision.set_precision(asked, "GPU:0") == precision.current() == recorded
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(True)
