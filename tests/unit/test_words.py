from ddl.words import did_you_mean, plural


def test_a_count_stands_with_its_noun():
    counts = [plural(count, "rank") for count in (0, 1, 1024, 1.5)]
    assert counts == ["0 ranks", "1 rank", "1,024 ranks", "1.5 ranks"]


def test_a_name_is_taken_for_the_one_that_it_is_like():
    assert did_you_mean("recipes", ["recipe", "seed"]) == ": did you mean 'recipe'?"
    assert did_you_mean("nonsense", ["recipe", "seed"]) == did_you_mean("recipe", []) == ""
