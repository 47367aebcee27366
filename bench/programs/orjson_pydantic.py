# SPDX-License-Identifier: MIT
"""orjson and pydantic-core: Rust extensions, with validators in Python."""
REQUIRES = ["orjson", "pydantic"]
WITHIN = {r"\(orjson\.": r"^(packed|unpacked) \(",
          r"^(positive) \(": r"^validated\b|\bvalidate_python\b|\b__init__\b"}


def positive(value):
    if value < 0:
        raise ValueError("negative")
    return value


def default(value):
    return list(value)


def packed():
    return orjson.dumps(RECORDS, default=default)


def unpacked():
    return orjson.loads(PACKED)


def validated():
    return ADAPTER.validate_python(RECORDS)


def dumped():
    return ADAPTER.dump_json(MODELS)


def setup():
    global orjson, RECORDS, PACKED, ADAPTER, MODELS
    from typing import Annotated
    import orjson
    import pydantic

    class Record(pydantic.BaseModel):
        id: Annotated[int, pydantic.AfterValidator(positive)]
        name: str
        tags: set
        scores: list[float]

    RECORDS = [{"id": i, "name": f"name {i}", "tags": {i, i + 1}, "scores": [i / 3] * 20} for i in range(500)]
    ADAPTER = pydantic.TypeAdapter(list[Record])
    MODELS = ADAPTER.validate_python(RECORDS)
    PACKED = packed()


def work():
    packed()
    unpacked()
    validated()
    dumped()
