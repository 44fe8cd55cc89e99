"""Records of a rank's steps."""

import numpy

from course.training.rank_log import Witness, checksum
from ddl.records.folder import RunFolder


def test_a_checksum_depends_on_every_number_and_their_order():
    one, two = numpy.arange(6, dtype=numpy.float32).reshape(2, 3), numpy.ones(2, numpy.float32)
    assert checksum([one, two]) == checksum([one.copy(), two.copy()])
    assert len({checksum(arrays) for arrays in ([one, two], [two, one], [one.T, two])}) == 3
    assert checksum([one]) != checksum([numpy.nextafter(one, numpy.float32(9))])


def test_a_witness_starts_a_new_record_and_needs_a_run(tmp_path, monkeypatch):
    monkeypatch.delenv("DDL_RUN_DIR", raising=False)
    nobody = Witness(0)
    nobody.tell("begin")
    assert nobody.keep_weights([]) is None
    monkeypatch.setenv("DDL_RUN_DIR", str(tmp_path))
    for value in (1, 2):
        witness = Witness(1)
        witness.tell("step", samples=numpy.arange(value, dtype=numpy.int32))
    assert RunFolder(tmp_path).witness(1).read_text() == '{"event": "step", "samples": [0, 1]}\n'
    assert witness.keep_weights([numpy.ones(3)]) == "weights.npz"
    assert numpy.load(tmp_path / "weights.npz")["arr_0"].tolist() == [1, 1, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["weights.npz", "witness-1.jsonl"]
