# SPDX-License-Identifier: MIT
"""The standard library's re, json, csv, pickle, zlib, hashlib, decimal and datetime on made-up text."""
import csv
import datetime
import decimal
import hashlib
import io
import json
import pickle
import random
import re
import zlib

WITHIN = {r"\(_json\.": r"^(dump_records|encode|decode|raw_decode|loads|dumps|iterencode|default)\b|JSON",
          r"\(_pickle\.": r"^pickle_records\b", r"\(zlib\.": r"^squeeze\b", r"\(_csv\.": r"^csv_rows\b",
          r"\(_hashlib\.": r"^(digest|sha256)\b", r"\(_decimal\.": r"^decimals\b|^<genexpr>"}


def default(value):
    return value.isoformat()


def hook(pairs):
    return dict(pairs)


def match_lines():
    return sum(len(PATTERN.findall(line)) for line in LINES) + len(PATTERN.sub(replace, LINES[0]))


def replace(match):
    return match.group(1).upper()


def dump_records():
    return json.loads(json.dumps(RECORDS, default=default), object_pairs_hook=hook)


def pickle_records():
    return pickle.loads(pickle.dumps(RECORDS))


def csv_rows():
    out = io.StringIO()
    csv.writer(out).writerows([list(record.values()) for record in RECORDS])
    return list(csv.reader(io.StringIO(out.getvalue())))


def squeeze():
    return zlib.decompress(zlib.compress(TEXT, 6))


def digest():
    return hashlib.sha256(TEXT * 20).hexdigest()


def decimals():
    return sum((decimal.Decimal(i) / 7).sqrt() for i in range(1, 300))


def setup():
    global PATTERN, LINES, RECORDS, TEXT
    rand = random.Random(1)
    PATTERN = re.compile(r"(\w+)=(\d+|\"[^\"]*\")")
    LINES = ["; ".join(f'key{rand.randrange(99)}="{rand.random()}"' for _ in range(100)) for _ in range(20)]
    RECORDS = [{"id": i, "name": f"name {i}", "score": rand.random(), "when": datetime.datetime(2020, 1, 1)}
               for i in range(300)]
    TEXT = "\n".join(LINES).encode()


def work():
    match_lines()
    dump_records()
    pickle_records()
    csv_rows()
    squeeze()
    digest()
    decimals()
