"""Values come back as they were stored, or are refused."""

import json
import math
import struct

from .setup import kind_of


class Draws:
    """The same values in every run, and those of the Rust suite: SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    def double(self):
        while True:
            (value,) = struct.unpack("<d", self.next().to_bytes(8, "little"))
            if math.isfinite(value):
                return value

    def text(self):
        characters = '\0\x1f"\\/a\x7f\xe9\u2028\ufeff\uffff\U0001f600'
        return "".join(characters[self.next() % 12] for _ in range(self.next() % 6))

    def value(self, depth):
        kind = self.next() % (9 if depth else 7)
        if kind == 0:
            return None
        if kind == 1:
            return self.next() % 2 == 0
        if kind == 2:
            return self.next()
        if kind == 3:
            return self.next() - 2**63
        if kind == 4:
            return self.double()
        if kind == 5:
            return float(self.next() % 2**32 - 2**31)
        if kind == 6:
            return self.text()
        if kind == 7:
            return [self.value(depth - 1) for _ in range(self.next() % 5)]
        return {self.text(): self.value(depth - 1) for _ in range(self.next() % 5)}


def exactly(value):
    """As text, so that 1 is not 1.0, nor 0.0 the same as -0.0."""
    return json.dumps(value, sort_keys=True)


async def comes_back(keys, value):
    await keys.put("exact", value)
    assert exactly(await keys.get("exact")) == exactly(value)


async def every_double_comes_back_to_the_bit(setup):
    keys, draws = setup.keys(), Draws(1)
    doubles = [117.63331391140017, -0.0, 1.0, 5e-324, 2.2250738585072014e-308, 1e16, 1e20]
    doubles += [draws.double() for _ in range(2_000)]
    await comes_back(keys, doubles)


async def every_value_comes_back_as_it_is(setup):
    keys, draws = setup.keys(), Draws(2)
    for value in (2**64 - 1, -(2**63), 1e20, "\0", {"": {"\0": []}}):
        await comes_back(keys, value)
    values = [draws.value(4) for _ in range(100)]
    await comes_back(keys, values)
    items = {f"exact/{at}": value for at, value in enumerate(values)}
    await keys.put_many(items)
    back = await keys.get_many(list(items))
    assert [exactly(record.value) for record in back] == [exactly(value) for value in values]


async def what_would_not_come_back_is_refused(setup):
    keys = setup.keys()
    await keys.put("exact", "before")
    deepest = []
    for _ in range(99):
        deepest = [deepest]
    for value in (
        2**64, 10**20, -(10**20), -(2**63) - 1, math.nan, math.inf, "\ud800", {1: 2}, {None: 1},
        b"bytes", [deepest], {"a": {1, 2}},
    ):  # fmt: skip
        assert await kind_of(lambda v=value: keys.put("exact", v)) == "Codec", value
        assert await kind_of(lambda v=value: keys.put_many({"exact": v})) == "Codec"
    assert await keys.get("exact") == "before"
    await comes_back(keys, deepest)
