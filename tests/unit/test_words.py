import pytest

from ddl.words import plural


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 ranks"), (1, "1 rank"), (2, "2 ranks"), (1024, "1,024 ranks"), (1.5, "1.5 ranks")]
)
def test_a_count_stands_with_its_noun(count, text):
    assert plural(count, "rank") == text
