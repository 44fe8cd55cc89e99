import pytest

from ddl.words import did_you_mean, plural


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 ranks"), (1, "1 rank"), (2, "2 ranks"), (1024, "1,024 ranks"), (1.5, "1.5 ranks")]
)
def test_a_count_stands_with_its_noun(count, text):
    assert plural(count, "rank") == text


def test_a_name_is_taken_for_the_one_that_it_is_like():
    assert did_you_mean("recipes", ["recipe", "seed"]) == ": did you mean 'recipe'?"
    assert did_you_mean("nonsense", ["recipe", "seed"]) == did_you_mean("recipe", []) == ""
