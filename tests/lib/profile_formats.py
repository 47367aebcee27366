# SPDX-License-Identifier: MIT
"""Reads profiles in each format that precord writes back into stacks: a Counter of samples by stack, a
stack being a tuple of frames' texts, outermost first. Only Python's own library is needed. What a format
promises beside (indexes in range, events that nest, parents before children) is checked on the way.

Texts are those of folded stacks with whole file names, without the marks of what is a guess, and with ":"
for ";", as folded stacks have it.
"""
import collections
import gzip
import json
import re


def text_of(name, place=None, line=None):
    text = name.replace(" [guessed]", "")
    library = place.rsplit("/", 1)[-1] if place else None
    if library and ".so" in library and re.fullmatch(re.escape(library) + r"(\+0x[0-9a-f]+)?", text):
        text = place + text[len(library):]      # no name is known
    elif place:
        text += f" ({place}:{line})" if line else f" ({place})"
    return text.replace(";", ":")


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def read_folded(path):
    stacks = collections.Counter()
    for line in load(path).decode().splitlines():
        stack, count = line.rsplit(" ", 1)
        frames = () if stack == "[no frames]" else tuple(
            re.sub(r":~(\d+\))$", r":\1", frame.replace(" [guessed]", "")) for frame in stack.split(";"))
        stacks[frames] += int(count)
    return stacks


# ---- speedscope -------------------------------------------------------------------------------


def read_speedscope(path, period):
    top = json.loads(load(path))
    assert top["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert 0 <= top["activeProfileIndex"] < len(top["profiles"])
    frames = [text_of(f["name"], f.get("file"), f.get("line")) for f in top["shared"]["frames"]]
    stacks = collections.Counter()
    for profile in top["profiles"]:
        assert profile["type"] == "sampled" and profile["unit"] == "nanoseconds"
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["startValue"] + sum(profile["weights"]) == profile["endValue"]
        for sample, weight in zip(profile["samples"], profile["weights"]):
            assert weight > 0 and all(0 <= i < len(frames) for i in sample)
            if sample:
                assert weight % period == 0, (weight, period)
                stacks[tuple(frames[i] for i in sample)] += weight // period
    return stacks


# ---- pprof ------------------------------------------------------------------------------------


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    """(number, value): an int, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            assert key & 7 == 2, key
            size, at = varint(data, at)
            assert at + size <= len(data)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def message(data):
    found = collections.defaultdict(list)
    for number, value in fields(data):
        found[number].append(value)
    return found


def numbers(values):
    """Of a repeated field, packed or not."""
    out = []
    for value in values:
        at = 0
        if isinstance(value, int):
            out.append(value)
        else:
            while at < len(value):
                number, at = varint(value, at)
                out.append(number)
    return out


def one(found, number):
    return found[number][-1] if number in found else 0


class Pprof:
    def __init__(self, path):
        self.top = top = message(load(path))
        self.strings = strings = [text.decode() for text in top[6]]
        assert strings[0] == ""
        self.types = [tuple(strings[one(message(t), i)] for i in (1, 2)) for t in top[1]]
        self.mappings, self.locations, functions = {}, {}, {}
        for data in top[5]:
            found = message(data)
            assert one(found, 1) and one(found, 1) not in functions and not one(found, 3)
            functions[one(found, 1)] = (strings[one(found, 2)], strings[one(found, 4)])
        for data in top[3]:
            found = message(data)
            assert one(found, 1) and one(found, 1) not in self.mappings
            self.mappings[one(found, 1)] = (strings[one(found, 5)], strings[one(found, 6)])
        for data in top[4]:
            found = message(data)
            assert one(found, 1) and one(found, 1) not in self.locations
            assert not one(found, 2) or one(found, 2) in self.mappings
            lines = [message(line) for line in found[4]]
            self.locations[one(found, 1)] = (one(found, 2), one(found, 3), [
                text_of(functions[one(line, 1)][0], functions[one(line, 1)][1], one(line, 2))
                for line in lines])
        self.samples = []
        for data in top[2]:
            found = message(data)
            labels = {}
            for label in map(message, found[3]):
                labels[strings[one(label, 1)]] = strings[one(label, 2)] or one(label, 3)
            values = numbers(found[2])
            assert len(values) == len(self.types)
            self.samples.append((numbers(found[1]), values, labels))

    def stacks(self, period):
        stacks = collections.Counter()
        for locations, values, _ in self.samples:
            frames = [text for id in locations for text in self.locations[id][2]]
            stacks[tuple(reversed(frames))] += values[0]
            assert self.types[0] == ("samples", "count")
            assert len(values) == 1 or values[1] == values[0] * period
        return stacks


def read_pprof(path, period):
    return Pprof(path).stacks(period)


# ---- Firefox Profiler -----------------------------------------------------------------------------

FIREFOX_TABLES = ("stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols", "sources",
                  "sourceLocationTable")


def check_table(table, name):
    for column, values in table.items():
        if isinstance(values, list):
            assert len(values) == table["length"], (name, column, len(values), table["length"])


def check_indexes(values, count, none, what):
    for value in values:
        assert value == none or isinstance(value, int) and 0 <= value < count, (what, value, count)


def check_firefox(top):
    """What the viewer takes for granted, and does not check."""
    shared, meta = top["shared"], top["meta"]
    assert meta["preprocessedProfileVersion"] == 70
    assert meta["categories"][0]["name"] == "Other" and meta["categories"][0]["color"] == "grey"
    for name in FIREFOX_TABLES:
        check_table(shared[name], name)
    count = {name: shared[name]["length"] for name in FIREFOX_TABLES}
    strings, libs = len(shared["stringArray"]), len(top["libs"])
    assert len(set(shared["stringArray"])) == strings
    for table, column, limit, none in (
            ("stackTable", "frame", count["frameTable"], 0), ("frameTable", "lib", libs, -1),
            ("frameTable", "func", count["funcTable"], 0),
            ("frameTable", "nativeSymbol", count["nativeSymbols"], None),
            ("frameTable", "category", len(meta["categories"]), 0), ("funcTable", "name", strings, 0),
            ("funcTable", "resource", count["resourceTable"], -1),
            ("funcTable", "source", count["sources"], None), ("resourceTable", "name", strings, 0),
            ("nativeSymbols", "libIndex", libs, 0), ("nativeSymbols", "name", strings, 0),
            ("sources", "filename", strings, 0)):
        check_indexes(shared[table][column], limit, none, (table, column))
    for index, offset in enumerate(shared["stackTable"]["prefixOffset"]):
        assert 0 <= offset <= index
    for thread in top["threads"]:
        samples, markers = thread["samples"], thread["markers"]
        check_table(samples, "samples")
        check_table(markers, "markers")
        assert isinstance(thread["pid"], str)
        check_indexes(samples["stack"], count["stackTable"], None, "samples.stack")
        check_indexes(markers["name"], strings, 0, "markers.name")
        check_indexes(markers["category"], len(meta["categories"]), 0, "markers.category")
        assert samples["time"] == sorted(samples["time"])
        assert all(a <= b for a, b in zip(markers["startTime"], markers["endTime"]))
        known = {schema["name"] for schema in meta["markerSchema"]}
        assert all(data["type"] in known for data in markers["data"])


def read_firefox(path, period):
    top = json.loads(load(path))
    check_firefox(top)
    assert abs(top["meta"]["interval"] * 1e6 - period) < 1
    shared = top["shared"]
    strings, funcs, frames = shared["stringArray"], shared["funcTable"], shared["frameTable"]
    texts = []
    for func, line in zip(frames["func"], frames["line"]):
        source, resource = funcs["source"][func], funcs["resource"][func]
        place = (strings[shared["sources"]["filename"][source]] if source is not None
                 else top["libs"][resource]["path"] if resource >= 0 else None)
        texts.append(text_of(strings[funcs["name"][func]], place, line))
    paths = []
    for index, (frame, offset) in enumerate(zip(shared["stackTable"]["frame"],
                                                shared["stackTable"]["prefixOffset"])):
        paths.append((paths[index - offset] if offset else ()) + (texts[frame],))
    stacks = collections.Counter()
    for thread in top["threads"]:
        for stack, weight in zip(thread["samples"]["stack"], thread["samples"]["weight"]):
            if weight:
                stacks[paths[stack] if stack is not None else ()] += weight
    return stacks


# ---- Chrome's trace events ---------------------------------------------------------------------------


def to_ns(us):
    return round(us * 1000)


def read_trace(path, period):
    stacks = collections.Counter()
    threads, names = collections.defaultdict(list), set()
    for event in json.loads(load(path))["traceEvents"]:
        assert isinstance(event["name"], str) and isinstance(event["cat"], str)
        if event["ph"] == "M":
            names.add((event["name"], event["pid"], event["tid"]))
            continue
        assert event["ph"] == "X"
        start = to_ns(event["ts"])
        place = event["args"].get("file") or event["args"].get("module")
        threads[event["pid"], event["tid"]].append(
            (start, start + to_ns(event["dur"]), text_of(event["name"], place, event["args"].get("line"))))
    for thread, events in threads.items():
        assert ("thread_name", *thread) in names and ("process_name", thread[0], thread[0]) in names
        open_events, own = [], collections.Counter()
        for start, end, text in events:
            assert end > start
            while open_events and open_events[-1][1] <= start:
                open_events.pop()
            assert not open_events or start >= open_events[-1][0] and end <= open_events[-1][1], text
            path_to = (open_events[-1][2] if open_events else ()) + (text,)
            own[path_to] += end - start
            if open_events:
                own[open_events[-1][2]] -= end - start
            open_events.append((start, end, path_to))
        for stack, length in own.items():
            assert length % period == 0 and length >= 0, (stack, length)
            if length:
                stacks[stack] += length // period
    return stacks


# ---- V8's CPU profiles --------------------------------------------------------------------------------


def check_cpuprofile(top):
    """The shape that V8 gives them, as its protocol has it."""
    assert set(top) == {"nodes", "startTime", "endTime", "samples", "timeDeltas"}
    ids = {node["id"] for node in top["nodes"]}
    assert len(ids) == len(top["nodes"]) and set(top["samples"]) <= ids
    assert len(top["samples"]) == len(top["timeDeltas"]) and all(d >= 0 for d in top["timeDeltas"])
    assert sum(top["timeDeltas"]) <= top["endTime"] - top["startTime"]
    children = [child for node in top["nodes"] for child in node.get("children", ())]
    assert len(children) == len(set(children)) and set(children) == ids - {top["nodes"][0]["id"]}
    for node in top["nodes"]:
        frame = node["callFrame"]
        assert set(frame) == {"functionName", "scriptId", "url", "lineNumber", "columnNumber"}
        assert isinstance(frame["scriptId"], str) and isinstance(node["hitCount"], int)


def read_cpuprofile(path, period):
    top = json.loads(load(path))
    check_cpuprofile(top)
    nodes = {node["id"]: node for node in top["nodes"]}
    parents = {child: node["id"] for node in top["nodes"] for child in node.get("children", ())}
    assert nodes[1]["callFrame"]["functionName"] == "(root)"
    threads = [id for id in nodes[1].get("children", ())
               if nodes[id]["callFrame"]["functionName"] != "(idle)"]
    if all(nodes[id]["callFrame"]["url"] for id in threads):
        threads = []   # one thread: no node of its own
    lengths, deltas = collections.Counter(), top["timeDeltas"]
    ends = deltas[1:] + [top["endTime"] - top["startTime"] - sum(deltas)]
    for sample, length in zip(top["samples"], ends):
        lengths[sample] += length
    stacks = collections.Counter()
    # DevTools' last sample is as long as others on average, VS Code's ends at endTime. And all hits are the whole time.
    assert nodes[2]["callFrame"]["functionName"] == "(idle)" and ends[-1] == 0 and top["samples"][-1:] in ([2], [])
    hits = sum(node["hitCount"] for node in nodes.values())
    assert abs(hits * period / 1000 - sum(deltas)) <= period / 2000 + len(deltas), (hits, sum(deltas))
    for id, node in nodes.items():
        if not node["hitCount"] or id == 2:
            continue
        said = node["hitCount"] * period / 1000
        assert abs(lengths[id] - said) <= top["samples"].count(id) + 1, (lengths[id], said)
        stack = []
        while id != 1 and id not in threads:
            frame = nodes[id]["callFrame"]
            stack.insert(0, text_of(frame["functionName"], frame["url"], frame["lineNumber"] + 1))
            id = parents[id]
        stacks[tuple(stack)] += node["hitCount"]
    return stacks


# ---- ours -------------------------------------------------------------------------------------------


def read_json(path):
    top = json.loads(load(path))
    texts = []
    for frame in top["frames"]:
        in_source = frame["line"] or not (frame["module_path"] or frame["module"])
        place = frame["filename"] if in_source else frame["module_path"] or frame["module"]
        texts.append(text_of(frame["name"] + ("?" if frame["uncertain"] else ""), place, frame["line"]))
    paths, stacks = [], collections.Counter()
    for node in top["nodes"]:
        paths.append(() if node["parent"] is None else paths[node["parent"]] + (texts[node["frame"]],))
        if node["self"]:
            stacks[paths[-1]] += node["self"]
    return stacks


READERS = {
    "speedscope.json": read_speedscope,
    "pb.gz": read_pprof,
    "firefox.json": read_firefox,
    "trace.json": read_trace,
    "cpuprofile": read_cpuprofile,
}
