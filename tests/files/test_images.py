"""Images: brightness from 0 to 1, three channels side by side, transparency and masks missing."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from depthrank import files
from depthrank.errors import DepthrankError
from depthrank.observations import Observations

RNG = np.random.default_rng(11)
GREY = RNG.integers(0, 256, (5, 7), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)


def save(pixels: np.ndarray, path: Path) -> Path:
    Image.fromarray(pixels).save(path)
    return path


def test_a_grey_image_is_the_matrix_of_its_brightness(tmp_path):
    seen = files.read(save(GREY, tmp_path / "a.png"))
    np.testing.assert_array_equal(seen.to_dense(), GREY / 255)
    files.write(tmp_path / "b.png", seen.to_dense(), seen)
    with Image.open(tmp_path / "b.png") as image:
        assert image.mode == "L"
        np.testing.assert_array_equal(np.asarray(image), GREY)


def test_an_image_agrees_with_a_table_of_the_same_numbers(tmp_path):
    np.save(tmp_path / "a.npy", GREY / 255)
    a, b = files.read(save(GREY, tmp_path / "a.png")), files.read(tmp_path / "a.npy")
    np.testing.assert_array_equal(a.values, b.values)
    assert a.shape == b.shape


def test_a_colour_image_is_three_matrices_side_by_side(tmp_path):
    seen = files.read(save(COLOUR, tmp_path / "a.png"))
    assert seen.shape == (5, 21)
    np.testing.assert_array_equal(seen.to_dense()[:, 7:14], COLOUR[:, :, 1] / 255)
    files.write(tmp_path / "b.png", seen.to_dense(), seen)
    with Image.open(tmp_path / "b.png") as image:
        assert image.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(image), COLOUR)


def test_transparent_pixels_are_missing_and_stay_so(tmp_path):
    alpha = np.full((5, 7), 255, np.uint8)
    alpha[1, 2], alpha[3, 4] = 0, 1  # nearly transparent is still seen
    seen = files.read(save(np.dstack([COLOUR, alpha]), tmp_path / "a.png"))
    assert seen.n_missing == 3
    assert np.argwhere(~seen.mask()).tolist() == [[1, 2], [1, 9], [1, 16]]
    files.write(tmp_path / "b.png", seen.to_dense(), seen)
    again = files.read(tmp_path / "b.png")
    np.testing.assert_array_equal(again.to_dense(), seen.to_dense())
    grey = files.read(save(np.dstack([GREY, alpha]), tmp_path / "c.png"))
    assert (grey.shape, grey.n_missing) == ((5, 7), 1)


def test_palette_and_sixteen_bit_images(tmp_path):
    Image.fromarray(COLOUR).quantize(16).save(tmp_path / "p.png")
    assert files.read(tmp_path / "p.png").shape == (5, 21)
    deep = RNG.integers(0, 65_536, (4, 6)).astype(np.uint16)
    seen = files.read(save(deep, tmp_path / "d.png"))
    np.testing.assert_array_equal(seen.to_dense(), deep / 65_535)
    files.write(tmp_path / "e.png", seen.to_dense(), seen)
    np.testing.assert_array_equal(files.read(tmp_path / "e.png").values, seen.values)


def test_jpeg_is_read_and_written_nearly(tmp_path):
    smooth = np.add.outer(np.arange(16), np.arange(24)).astype(np.uint8) * 5
    seen = files.read(save(smooth, tmp_path / "a.png"))
    files.write(tmp_path / "b.jpg", seen.to_dense(), seen)
    again = files.read(tmp_path / "b.jpg")
    assert np.abs(again.values - seen.values).max() < 0.02  # five of 255 levels
    holes = seen.to_dense()
    holes[0, 0] = np.nan
    with pytest.raises(DepthrankError, match="1 cells are missing, and JPEG has no transparency"):
        files.write(tmp_path / "c.jpg", holes, seen)
    assert not (tmp_path / "c.jpg").exists()


@pytest.mark.parametrize("kind", ["png", "npy"])
def test_a_mask_file_says_what_is_seen(tmp_path, kind):
    mask = np.zeros((5, 7), np.uint8)
    mask[:, ::2] = 200
    path = tmp_path / f"mask.{kind}"
    if kind == "png":
        save(mask, path)
    else:
        np.save(path, mask)
    seen = files.read(save(COLOUR, tmp_path / "a.png"), mask=path)
    np.testing.assert_array_equal(seen.mask(), np.tile(mask > 0, 3))
    np.save(tmp_path / "table.npy", GREY / 2)
    table = files.read(tmp_path / "table.npy", mask=path)
    np.testing.assert_array_equal(table.mask(), mask > 0)


def test_a_mask_must_fit_and_be_an_array(tmp_path):
    image = save(GREY, tmp_path / "a.png")
    np.save(tmp_path / "m.npy", np.ones((7, 5)))
    with pytest.raises(DepthrankError, match=r"has shape \(7, 5\), the input \(5, 7\)"):
        files.read(image, mask=tmp_path / "m.npy")
    (tmp_path / "m.csv").write_text("1,0\n")
    with pytest.raises(DepthrankError, match="must be an image or an NPY file"):
        files.read(image, mask=tmp_path / "m.csv")


def test_what_is_no_image_is_refused(tmp_path):
    (tmp_path / "a.png").write_bytes(b"junk")
    with pytest.raises(DepthrankError, match="cannot be read as an image"):
        files.read(tmp_path / "a.png")
    save(GREY, tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:60])
    with pytest.raises(DepthrankError, match="cannot be read as an image"):
        files.read(tmp_path / "cut.png")


def test_numbers_that_are_no_brightness_are_not_drawn(tmp_path):
    with pytest.raises(DepthrankError, match="the values run from -2 to 3; an image needs 0 to 1"):
        files.write(tmp_path / "a.png", [[-2.0, np.nan], [0.5, 3.0]])
    files.write(tmp_path / "a.png", [[0.0, 0.2], [0.6, 1.0]])
    assert files.read(tmp_path / "a.png").values.tolist() == [0.0, 0.2, 0.6, 1.0]
    seen = files.read(save(GREY, tmp_path / "b.png"))
    files.write(tmp_path / "c.png", 2 * seen.to_dense() - 0.5, seen)  # overshoot is clipped
    clipped = files.read(tmp_path / "c.png").values
    assert (clipped.min(), clipped.max()) == (0.0, 1.0)


def test_a_colour_image_needs_three_equal_parts(tmp_path):
    seen = files.read(save(COLOUR, tmp_path / "a.png"))
    narrow = Observations(
        (5, 20), seen.rows[:0], seen.cols[:0], seen.values[:0], source=seen.source
    )
    with pytest.raises(DepthrankError, match="has 20 columns; a colour image needs three equal"):
        files.write(tmp_path / "b.png", np.zeros((5, 20)), narrow)
