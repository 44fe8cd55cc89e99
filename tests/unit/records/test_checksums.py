"""Checksums of arrays."""

import numpy

from ddl.records.checksums import checksum


def test_a_checksum_depends_on_every_number_and_their_order():
    one, two = numpy.arange(6, dtype=numpy.float32).reshape(2, 3), numpy.ones(2, numpy.float32)
    assert checksum([one, two]) == checksum([one.copy(), two.copy()])
    assert len({checksum(arrays) for arrays in ([one, two], [two, one], [one.T, two])}) == 3
    assert checksum([one]) != checksum([numpy.nextafter(one, numpy.float32(9))])
