"""Images to observations and back: greyscale one matrix, colour three side by side.

Values are brightness from 0 to 1. A colour image of m x n pixels is an m x 3n matrix
[red | green | blue], so that the three channels share their row space. Transparent pixels are
missing, and cells that are still missing are written as transparent.
"""

from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from depthrank.errors import DepthrankError
from depthrank.observations import Observations
from depthrank.source import Source

SUFFIXES = (".png", ".jpg", ".jpeg")


def read_image(path: Path) -> Observations:
    """Read a PNG or JPEG image; fully transparent pixels are missing."""
    pixels, bits = load_pixels(path)
    top = 2**bits - 1
    n_colours = 3 if pixels.shape[2] >= 3 else 1
    channels = [pixels[:, :, k] / top for k in range(n_colours)]
    if pixels.shape[2] in (2, 4):
        transparent = pixels[:, :, -1] == 0
        for channel in channels:
            channel[transparent] = np.nan
    observations = Observations.from_dense(np.hstack(channels))
    source = Source(path=str(path), kind="image", channels=n_colours, bits=bits)
    return replace(observations, source=source)


def load_pixels(path: Path) -> tuple[NDArray[np.integer[Any]], int]:
    """Return [height, width, 1 to 4 channels] and bits: grey, grey+alpha, colour, colour+alpha."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as opened:
            image = ImageOps.exif_transpose(opened)
            if image.mode.startswith("I") or image.mode == "F":
                pixels = np.asarray(image)
                if image.mode == "F" or pixels.max(initial=0) > 65_535:
                    raise DepthrankError(f"images of mode {image.mode} are not read.")
                return pixels[:, :, np.newaxis], 16
            grey = image.mode in ("1", "L", "LA")
            clear = image.has_transparency_data
            image = image.convert(("LA" if grey else "RGBA") if clear else ("L" if grey else "RGB"))
            pixels = np.asarray(image)
            return pixels.reshape(*pixels.shape[:2], -1), 8
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise DepthrankError(f"this cannot be read as an image: {error}.") from None


def write_image(
    handle: IO[bytes], suffix: str, matrix: NDArray[np.float64], source: Source | None
) -> None:
    """Write a matrix of brightness as PNG or JPEG.

    What came from an image may overshoot 0 to 1 and is clipped; other numbers are refused, since
    a grey value would not be what they mean.
    """
    from PIL import Image

    channels, bits = 1, 8
    if source is not None and source.kind == "image":
        channels, bits = source.channels, source.bits
    elif not ((matrix >= 0) & (matrix <= 1) | np.isnan(matrix)).all():
        raise DepthrankError(
            f"the values run from {np.nanmin(matrix):g} to {np.nanmax(matrix):g}; an image needs "
            "0 to 1. Write a table, or scale them first."
        )
    if matrix.shape[1] % channels:
        raise DepthrankError(
            f"the matrix has {matrix.shape[1]} columns; a colour image needs three equal parts."
        )
    jpeg = suffix != ".png"
    if jpeg or channels == 3:
        bits = 8  # neither JPEG nor a colour image of Pillow has more
    missing = np.isnan(matrix)
    if missing.any() and (jpeg or bits == 16):
        raise DepthrankError(
            f"{int(missing.sum())} cells are missing, and "
            f"{'JPEG' if jpeg else 'a 16-bit image'} has no transparency. Fill them first."
        )
    top = 2**bits - 1
    kind = np.uint8 if bits == 8 else np.uint16
    levels = np.rint(np.clip(np.nan_to_num(matrix), 0, 1) * top).astype(kind)
    layers = np.hsplit(levels, channels)
    if missing.any():
        hidden = np.any(np.hsplit(missing, channels), axis=0)
        layers.append(np.where(hidden, 0, 255).astype(np.uint8))
    pixels = layers[0] if len(layers) == 1 else np.dstack(layers)
    image = Image.fromarray(pixels)
    if jpeg:
        image.save(handle, format="JPEG", quality=95, subsampling=0)
    else:
        image.save(handle, format="PNG")
