"""Recipes: what is read is what was meant, and a slip of the pen is one line."""

import tomllib
from pathlib import Path

import pytest

from watchword.config import check_paths, find_recipe, read_recipe, recipe_name, shipped_recipes, write_toml
from watchword.errors import WatchwordError
from watchword.models import read_model_config

RECIPES = [*sorted((Path(__file__).parents[1] / "recipes").glob("*.toml")), *shipped_recipes().values()]
TEXT = """
[data]
captions = "captions.jsonl"
store = "store"
[model]
name = "soft_attention"
[[phases]]
epochs = 3
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(TEXT)
    return file


def test_words_of_the_command_line_go_over_the_file(path: Path) -> None:
    words = [
        "phases.0.learning_rate=2e-4",
        "model.hidden_size=64",
        "data.streams=['a', 'b']",
        "seed=7",
        "phases.0.schedule.decay=0.5",
        "about=two words",
    ]
    recipe = read_recipe(path, words)
    assert recipe.phases[0].learning_rate == 2e-4
    assert recipe.model["hidden_size"] == 64
    assert recipe.data.streams == ("a", "b")
    assert (recipe.seed, recipe.phases[0].schedule.decay, recipe.about) == (7, 0.5, "two words")


def test_paths_in_a_recipe_are_relative_to_it(path: Path) -> None:
    assert read_recipe(path).data.captions == path.parent / "captions.jsonl"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("phases.0.learning_rat=1", "did you mean 'learning_rate'"),
        ("data.stream=['x']", "did you mean 'streams'"),
        ("phases.0.schedule.decai=1", "did you mean 'decay'"),
        ("phases.0.epochs=many", "phases.0.epochs = 'many'"),
        ("phases.3.epochs=1", "a number below 1"),
        ("seed", "not key=value"),
        ("seed.x=1", "seed"),
        ("phases=[]", "phases"),
        ("phases.0.learning_rate=-1", "greater than 0"),
    ],
)
def test_a_slip_is_one_line_that_names_it(path: Path, word: str, message: str) -> None:
    with pytest.raises(WatchwordError, match=message.replace("[", r"\[")) as caught:
        read_recipe(path, [word])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "soft_atention"}, "did you mean 'soft_attention'"),
        ({"name": "s2vt", "hiden_size": 3}, "did you mean 'hidden_size'"),
        ({}, "needs a name"),
    ],
)
def test_a_model_that_is_not_there_is_one_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises(WatchwordError, match=message):
        read_model_config(settings)


@pytest.mark.parametrize("content", [b"[data", b"\xff\xfe", b"x = 1"])
def test_a_file_that_is_no_recipe_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.toml").write_bytes(content)
    with pytest.raises(WatchwordError, match=r"broken\.toml"):
        read_recipe(tmp_path / "broken.toml")


def test_a_missing_recipe_names_the_nearest(path: Path) -> None:
    with pytest.raises(WatchwordError, match=r"did you mean 'recipe\.toml'"):
        read_recipe(path.parent / "recipee.toml")


def test_settings_survive_being_written(path: Path) -> None:
    words = ["about='line\\nquote \"x\" ünï 😀'", "published={CIDEr=0.5}", "phases.0.sampling.rate=0.1"]
    recipe = read_recipe(path, words)
    path.write_text(write_toml(recipe.model_dump()), "utf-8")
    assert read_recipe(path).model_dump() | {"data": None} == recipe.model_dump() | {"data": None}


def test_tables_within_lists_are_written_as_toml() -> None:
    values = {"a": [{"b": {"c": 1}, "d": [1, 2]}, {"b": {"c": 2}, "d": []}], "e": {"f g": True}}
    assert tomllib.loads(write_toml(values)) == values


@pytest.mark.parametrize("file", RECIPES, ids=recipe_name)
def test_every_recipe_of_the_project_is_valid(file: Path) -> None:
    recipe = read_recipe(file)
    read_model_config(recipe.model)
    assert recipe.about


@pytest.mark.parametrize("name", ["shapes", "msvd/soft_attention", "recipes/msvd_soft_attention.toml"])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_shipped_recipe_is_found_by_its_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shapes").mkdir()  # a folder of the same name is no recipe
    monkeypatch.chdir(tmp_path)
    path = find_recipe(name)
    assert recipe_name(path) == ("shapes" if name == "shapes" else "msvd_soft_attention")
    assert read_recipe(path).about


def test_the_former_name_of_a_shipped_recipe_is_reported() -> None:
    with pytest.warns(FutureWarning, match="is now called msvd/stats"):
        find_recipe("recipes/msvd_stats.toml")


def test_a_file_of_ones_own_is_a_recipe(path: Path) -> None:
    assert find_recipe(str(path)) == path
    assert recipe_name(path) == "recipe"


def test_an_unknown_name_gives_the_nearest_shipped_recipe() -> None:
    with pytest.raises(WatchwordError, match=r"did you mean 'msvd/soft_attention'"):
        read_recipe(find_recipe("msvd/soft_atention"))


def test_paths_of_a_shipped_recipe_are_relative_to_the_working_folder() -> None:
    recipe = read_recipe(find_recipe("shapes"))
    assert recipe.data.captions == Path("data/shapes/captions.jsonl")
    assert read_recipe(find_recipe("msvd/rewards")).init_from == Path("runs/msvd_soft_attention")


def test_a_missing_path_names_the_setting_and_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = read_recipe(find_recipe("shapes"))
    with pytest.raises(WatchwordError, match=r"make it with watchword research shapes .*set data\.captions=PATH"):
        check_paths(recipe)
    with pytest.raises(WatchwordError, match=r"^init_from: there is no .*; set init_from=PATH$"):
        check_paths(read_recipe(find_recipe("msvd/rewards")))


OLD = """
start = "runs/first"
[data]
captions = "captions.jsonl"
store = "store"
moments = 14
glimpse = 0.5
blind = true
[model]
name = "gist"
looks = ["appearance"]
meaning_size = 7
sharpness = 2.0
[[phases]]
averaging = 0.9
loss = { name = "first_look" }
[[phases]]
averaging = 0.99
[selection]
votes = 5
"""


def test_old_keys_and_names_are_read_with_a_warning(path: Path) -> None:
    path.write_text(OLD)
    with pytest.warns(FutureWarning) as caught:
        recipe = read_recipe(path, ["data.moments=9"])
    assert (recipe.data.max_time_steps, recipe.data.frame_keep_rate, recipe.data.text_only) == (9, 0.5, True)
    assert [phase.ema_decay for phase in recipe.phases] == [0.9, 0.99]
    assert recipe.phases[0].loss["name"] == "first_pass"
    assert (recipe.init_from, recipe.selection.mbr_samples) == (path.parent / "runs" / "first", 5)
    name, config = read_model_config(recipe.model)
    assert (name, config.model_dump()["attended_streams"]) == ("embedding_conditioned", ("appearance",))
    said = {str(warning.message).partition(";")[0] for warning in caught}
    assert "data.moments of recipes is now called data.max_time_steps" in said
    assert "model.name = 'gist' of recipes is now called 'embedding_conditioned'" in said


@pytest.mark.parametrize("path", RECIPES, ids=recipe_name)
@pytest.mark.filterwarnings("error::FutureWarning")
def test_our_recipes_have_no_old_keys(path: Path) -> None:
    read_recipe(path)
