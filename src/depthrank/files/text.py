"""Bytes of a text table to records: encoding, separator, quoting, ragged lines."""

import codecs
import csv
import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from depthrank.errors import DepthrankError

SEPARATORS = ("\t", ";", "|", ",")
"""Tried in this order: numbers with a decimal comma look comma-separated, never the reverse."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_KINDS = (
    (b"PAR1", "a Parquet file; name it .parquet"),
    (b"\x93NUMPY", "a NumPy file; name it .npy"),
    (b"PK\x03\x04", "a zip archive (an XLSX workbook or NPZ file); export a workbook as CSV"),
    (b"\x89PNG", "a PNG image; name it .png"),
    (b"\xff\xd8\xff", "a JPEG image; name it .jpg"),
    (b"%PDF", "a PDF document; a table is needed"),
    (b"%%MatrixMarket", "a Matrix Market file; name it .mtx"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook; export it as CSV"),
)
_SNIFFED_CHARS = 65_536
_SNIFFED_RECORDS = 50


def decode(raw: bytes, encoding: str | None) -> tuple[str, str]:
    """Return the text and its encoding; recognise other kinds of file and say so."""
    for magic, kind in _KINDS:
        if raw.startswith(magic):
            raise DepthrankError(f"this is not a text table but {kind}.")
    if encoding is not None:
        try:
            return raw.decode(encoding), encoding
        except LookupError:
            raise DepthrankError(f"there is no encoding named {encoding!r}.") from None
        except UnicodeDecodeError as error:
            raise DepthrankError(f"{_undecodable(raw, error)} in {encoding}.") from None
    text, encoding = _guess(raw)
    if text.lstrip()[:9].lower() == "<!doctype" or text.lstrip()[:5].lower() == "<html":
        raise DepthrankError(
            "this is not a text table but an HTML page (was a login or error page downloaded?)."
        )
    return text, encoding


def _guess(raw: bytes) -> tuple[str, str]:
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            try:
                return raw.decode(encoding), encoding
            except UnicodeDecodeError as error:
                raise DepthrankError(f"{_undecodable(raw, error)} in {encoding}.") from None
    if b"\x00" in raw[:4096]:
        raise DepthrankError(
            "this is not text in a known encoding (it holds zero bytes). If it is UTF-16 without "
            "a mark, set the option encoding to 'utf-16-le'."
        )
    try:
        return raw.decode("utf-8"), "utf-8"
    except UnicodeDecodeError as error:
        problem = _undecodable(raw, error)
    try:
        text, encoding = raw.decode("cp1252"), "cp1252"
    except UnicodeDecodeError:
        text, encoding = raw.decode("latin-1"), "latin-1"
    warnings.warn(
        f"{problem} in UTF-8; the file is read as {encoding}. If labels look wrong, set the "
        "option encoding.",
        stacklevel=2,
    )
    return text, encoding


def _undecodable(raw: bytes, error: UnicodeDecodeError) -> str:
    line = raw.count(b"\n", 0, error.start) + 1
    return f"line {line} holds a byte (0x{raw[error.start]:02X}) that is not valid"


def sniff(text: str, prefer: str | None = None) -> str:
    """Guess the separator from the first records: steadiest number of fields wins."""
    best, best_share = ",", 0.0
    sample = text[:_SNIFFED_CHARS]
    for separator in (prefer, *SEPARATORS) if prefer else SEPARATORS:
        widths: list[int] = []
        try:
            for _, fields in records(sample, separator):
                widths.append(len(fields))
                if len(widths) == _SNIFFED_RECORDS:
                    break
        except DepthrankError:  # quotes that do not close: wrong separator, or the sample's cut
            pass
        if widths and widths[0] > 1:
            share = widths.count(widths[0]) / len(widths)
            if share > best_share:
                best, best_share = separator, share
    return best


def records(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line on which each record starts (from 1) and its fields; skip blank lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    line = 1
    try:
        for fields in reader:
            # A blank line has no field, a quoted empty cell has an empty one.
            if len(fields) > 1 or (fields and (fields[0].strip() or not fields[0])):
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise DepthrankError(
            f"line {line} cannot be read as separated text ({error}). Is a quotation mark not "
            "closed?"
        ) from None


@dataclass(frozen=True)
class Survey:
    """What a first pass over the records found.

    Attributes
    ----------
    first : list of str
        Fields of the first record.
    width : int
        Fields in every record.
    column : list of str
        First field of every record after the first.
    """

    first: list[str]
    width: int
    column: list[str]


def survey(text: str, separator: str) -> Survey:
    """Go once over all records: every one must have as many fields as the first."""
    if not text.strip("\ufeff \t\r\n"):
        raise DepthrankError(f"the file is {'empty' if not text else 'blank: it has no cells'}.")
    first: list[str] = []
    column: list[str] = []
    ragged: list[str] = []
    n_ragged = 0
    for line, fields in records(text, separator):
        if not first:
            first = fields
            continue
        if len(fields) != len(first):
            n_ragged += 1
            if n_ragged <= 5:
                ragged.append(f"line {line} ({_count(len(fields))}, expected {len(first)})")
        column.append(fields[0])
    if n_ragged:
        more = f" and {n_ragged - 5} more lines" if n_ragged > 5 else ""
        raise DepthrankError(
            f"lines differ in length: {', '.join(ragged)}{more}. Quote fields that hold the "
            f"separator ({separator!r}), or set the option sep."
        )
    return Survey(first, len(first), column)


def _count(n_fields: int) -> str:
    return f"{n_fields} field" + ("" if n_fields == 1 else "s")
