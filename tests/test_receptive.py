"""Receptive fields of C3D and of what brings its layers together: Tables 4 and 5 of the dualAFR paper."""

import pytest
import torch

from watchword.layers.alignment import (
    ConvolutionAlignment,
    Field,
    PoolingAlignment,
    convolution,
    kernel_of,
    pooling,
    ratio_of,
    reach_of,
    seen_through,
)

C3D_SIDES = {"pool2": 28, "pool3": 14, "pool4": 7, "pool5": 4}
C3D_TIME_STEPS = {"pool2": 8, "pool3": 4, "pool4": 2, "pool5": 1}  # of 16 frames
SPACE = {"pool2": Field(4, -7, 2), "pool3": Field(8, -15, 6), "pool4": Field(16, -31, 14), "pool5": Field(32, -63, 30)}
TIME = {"pool2": Field(2, -4, 1), "pool3": Field(4, -8, 3), "pool4": Field(8, -16, 7), "pool5": Field(16, -32, 15)}
TABLE_5 = {"pool2": Field(8, -14, 7), "pool3": Field(4, -6, 3), "pool4": Field(2, -2, 1)}  # pool3: 4 is printed for 3


def c3d(depth: int, first_pool: int) -> Field:
    """Layer pool<depth> in the video, whose first pixel or frame counts as 0 (Table 4's convention)."""
    stages = [part for _ in range(depth - 1) for part in (pooling(2), convolution(3))]
    return seen_through(*stages, pooling(first_pool), convolution(3), Field(1, -1, -1))


@pytest.mark.parametrize("depth", [2, 3, 4, 5])
def test_table_4_is_one_convolution_and_one_halving_for_each_pool(depth: int) -> None:
    assert c3d(depth, 2) == SPACE[f"pool{depth}"]
    assert c3d(depth, 1) == TIME[f"pool{depth}"]  # pool1 leaves time alone


@pytest.mark.parametrize("layer", ["pool2", "pool3", "pool4"])
@pytest.mark.parametrize(("table", "locations"), [(SPACE, C3D_SIDES), (TIME, C3D_TIME_STEPS)])
def test_with_receptive_kernels_all_layers_see_exactly_what_the_deepest_sees(
    layer: str, table: dict[str, Field], locations: dict[str, int]
) -> None:
    ratio = ratio_of(locations[layer], locations["pool5"])
    aligned = seen_through(pooling(ratio), convolution(kernel_of(ratio, "receptive")))
    assert aligned == TABLE_5[layer]
    assert aligned.over(table[layer]) == table["pool5"]


@pytest.mark.parametrize("layer", ["pool2", "pool3", "pool4"])
@pytest.mark.parametrize("table", [SPACE, TIME])
def test_with_the_appendix_kernels_they_see_a_middle_part_of_it(layer: str, table: dict[str, Field]) -> None:
    ratio = ratio_of(C3D_SIDES[layer], 4)
    seen = seen_through(pooling(ratio), convolution(kernel_of(ratio, "appendix")), table[layer])
    whole = table["pool5"]
    assert seen.stride == whole.stride
    assert seen.first - whole.first == whole.last - seen.last >= 0
    assert (seen.width < whole.width) == (layer != "pool4")


def test_ratios_kernels_and_padding_are_those_of_the_appendix() -> None:
    ratios = [ratio_of(C3D_SIDES[layer], 4) for layer in C3D_SIDES]
    assert ratios == [ratio_of(C3D_TIME_STEPS[layer], 1) for layer in C3D_SIDES] == [8, 4, 2, 1]
    assert [kernel_of(ratio, "appendix") for ratio in ratios[:3]] == [7, 5, 3]
    assert [kernel_of(ratio, "appendix") // 2 for ratio in ratios[:3]] == [3, 2, 1]


@pytest.mark.parametrize(("layer", "width"), [("pool2", 3), ("pool3", 2), ("pool4", 2)])
def test_c3d_layers_of_32_frames_come_out_as_large_as_its_deepest(layer: str, width: int) -> None:
    ratio = ratio_of(C3D_SIDES[layer], 4)
    maps = torch.rand(1, width, 2 * C3D_TIME_STEPS[layer], C3D_SIDES[layer], C3D_SIDES[layer])
    real = torch.ones_like(maps[:, :1])
    for align in (
        ConvolutionAlignment(width, 5, (ratio,) * 3, "appendix"),
        ConvolutionAlignment(width, 5, (ratio,) * 3, "receptive"),
        PoolingAlignment(width, 5, (ratio,) * 3, largest=True),
        PoolingAlignment(width, 5, (ratio,) * 3, largest=False),
    ):
        assert align(maps, real).shape == (1, 2, 4, 4, 5)


@pytest.mark.parametrize("rule", ["appendix", "receptive"])
@pytest.mark.parametrize("ratio", [1, 2, 4])
def test_a_location_feels_its_field_and_nothing_beside_it(rule: str, ratio: int) -> None:
    """The reckoning against the network itself, along time: which inputs have a gradient."""
    torch.manual_seed(0)
    time_steps, location = 6 * ratio, 3  # the location, counted from 1
    align = ConvolutionAlignment(1, 4, (ratio, 1, 1), rule)  # type: ignore[arg-type]
    felt = torch.zeros(time_steps, dtype=torch.bool)
    for seed in range(20):  # max pooling lets one input through at a time
        maps = torch.randn(1, 1, time_steps, 1, 1, generator=torch.Generator().manual_seed(seed), requires_grad=True)
        align(maps, torch.ones_like(maps))[0, location - 1].sum().backward()
        assert maps.grad is not None
        felt |= maps.grad[0, 0, :, 0, 0] != 0
    field = seen_through(pooling(ratio), convolution(kernel_of(ratio, rule)))  # type: ignore[arg-type]
    seen = range(field.stride * location + field.first, field.stride * location + field.last + 1)
    assert [time_step + 1 for time_step in range(time_steps) if felt[time_step]] == list(seen)


def test_pooling_takes_all_that_a_deepest_location_sees() -> None:
    """Ratio 2: windows of 4 that overlap, by hand."""
    maps = torch.tensor([1.0, 5.0, 2.0, 0.0, 3.0, 4.0]).view(1, 1, 6, 1, 1)
    real = torch.ones_like(maps)
    real[0, 0, 1] = 0  # nothing to see at the second time step
    for largest, expected in ((True, [2.0, 3.0, 4.0]), (False, [1.5, 5 / 3, 7 / 3])):
        align = PoolingAlignment(1, 1, (2, 1, 1), largest)
        align.embed = torch.nn.Identity()  # type: ignore[assignment]
        torch.testing.assert_close(align(maps, real).flatten(), torch.tensor(expected))
    assert [reach_of(ratio) for ratio in (1, 2, 4, 8)] == [0, 1, 3, 7]


@pytest.mark.parametrize("rule", ["appendix", "receptive"])
def test_layers_of_the_same_size_have_kernels_of_one(rule: str) -> None:
    """The blocks of a transformer: a location of one block belongs to the same location of another."""
    assert kernel_of(1, rule) == 1  # type: ignore[arg-type]
    align = ConvolutionAlignment(3, 5, (1, 1, 1), rule)  # type: ignore[arg-type]
    assert tuple(align.filters.weight.shape) == (5, 3, 1, 1, 1)
    maps, real = torch.randn(2, 3, 4, 2, 2), (torch.rand(2, 1, 4, 2, 2) > 0.3).float()
    expected = (align.filters(maps * real).relu() * real).movedim(1, -1)
    torch.testing.assert_close(align(maps, real), expected)
