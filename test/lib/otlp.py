# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OpenTelemetry's requests as Python values, decoded without any code of src, and a receiver of
them for tests: `Receiver(answers=[...])`, one a request, in order, then 200. "hang": none until
`release` is set, or for a minute."""
import gzip
import http.server
import struct
import threading

from protobuf import fields


def message(data):
    out = {}
    for field, value in fields(data):
        out.setdefault(field, []).append(value)
    return out


def fixed(part):
    return struct.unpack("<Q", part)[0]


def double(part):
    return struct.unpack("<d", part)[0]


def zigzag(number):
    return number >> 1 ^ -(number & 1)


def varints(data):
    out = []
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            out.append(value)
            value = shift = 0
    assert not shift
    return out


def attributes(pairs):
    """{key: value}; each key once."""
    out = {}
    for pair in pairs:
        pair = message(pair)
        (kind, value), = fields(pair[2][0])
        key = pair[1][0].decode()
        assert key not in out
        out[key] = {1: lambda v: v.decode(), 2: bool, 3: int, 4: double}[kind](value)
    return out


def scopes(data):
    """Resource attributes and the items of the one scope of a request."""
    resource, = message(data)[1]
    resource = message(resource)
    scope, = resource[2]
    scope = message(scope)
    assert message(scope[1][0])[1] == [b"kymo"]
    return attributes(message(resource[1][0])[1]), scope.get(2, [])


def buckets(point):
    """{index: count}, of the scale beside it."""
    if 8 not in point:
        return {}
    part = message(point[8][0])
    offset = zigzag(part.get(1, [0])[0])
    counts = varints(part[2][0])
    assert counts[0] and counts[-1] and len(counts) <= 160
    return {offset + i: count for i, count in enumerate(counts) if count}


class Metrics:
    def __init__(self, data):
        self.resource, items = scopes(data)
        self.histograms, self.sums, self.units, self.times = {}, {}, {}, set()
        for item in items:
            item = message(item)
            name = item[1][0].decode()
            self.units[name] = item[3][0].decode()
            (kind, value), = ((field, value[0]) for field, value in item.items() if field > 3)
            value = message(value)
            assert value[2] == [1]  # delta
            if kind == 10:
                self.histograms[name] = dict(map(self.histogram, value[1]))
                assert len(self.histograms[name]) == len(value[1])
            else:
                assert kind == 7 and value[3] == [1]
                self.sums[name] = {tuple(attributes(message(one).get(7, [])).values()):
                                   self.number(message(one)) for one in value[1]}

    def time(self, point):
        assert fixed(point[2][0]) <= fixed(point[3][0])
        self.times.add((fixed(point[2][0]), fixed(point[3][0])))

    def number(self, point):
        self.time(point)
        return fixed(point[6][0])

    def histogram(self, point):
        point = message(point)
        self.time(point)
        one = {"count": fixed(point[4][0]), "sum": double(point[5][0]),
               "scale": zigzag(point.get(6, [0])[0]), "zero": fixed(point[7][0]),
               "buckets": buckets(point), "min": double(point[12][0]),
               "max": double(point[13][0])}
        assert one["count"] == one["zero"] + sum(one["buckets"].values())
        return attributes(point[1])["kymo.site"], one


class Spans:
    def __init__(self, data):
        self.resource, items = scopes(data)
        self.all = [self.span(message(item)) for item in items]
        self.polls = [one for one in self.all if one["name"].startswith("poll ")]
        self.findings = [one for one in self.all if not one["name"].startswith("poll ")]

    def span(self, span):
        one = {"trace": span[1][0].hex(), "id": span[2][0].hex(),
               "parent": span.get(4, [b""])[0].hex(), "name": span[5][0].decode(),
               "start": fixed(span[7][0]), "end": fixed(span[8][0]),
               "attributes": attributes(span[9]), "events": [], "links": []}
        assert len(one["trace"]) == 32 and int(one["trace"], 16)
        assert len(one["id"]) == 16 and int(one["id"], 16) and one["start"] <= one["end"]
        for event in map(message, span.get(11, [])):
            one["events"].append((event[2][0].decode(), fixed(event[1][0]),
                                  attributes(event[3])))
        for link in map(message, span.get(13, [])):
            one["links"].append((link[1][0].hex(), link[2][0].hex()))
        return one


class Profiles:
    """[(type, unit, [sample])]; each index of a sample is one of the dictionary."""
    def __init__(self, data):
        request = message(data)
        self.resource, items = scopes(data)
        tables = message(request[2][0])
        assert all(tables[table][0] == b"" for table in range(1, 8))
        self.strings = [text.decode() for text in tables[5]]
        self.functions = [self.strings[message(one).get(1, [0])[0]] for one in tables[3]]
        self.locations = [self.location(message(one)) for one in tables[2]]
        self.stacks = [[self.locations[at] for at in varints(message(one).get(1, [b""])[0])]
                       for one in tables[7]]
        self.attributes = [self.attribute(message(one)) for one in tables[6]]
        self.links = [tuple(part[0].hex() for part in message(one).values()) for one in tables[4]]
        self.all = [self.profile(message(item)) for item in items]

    def location(self, one):
        return [self.functions[message(line)[1][0]] for line in one.get(3, [])]

    def attribute(self, one):
        if not one:
            return None
        (kind, value), = fields(one[2][0])
        return self.strings[one[1][0]], value.decode() if kind == 1 else value

    def profile(self, one):
        kind = message(one[1][0])
        assert len(one[7][0]) == 16
        return (self.strings[kind[1][0]], self.strings[kind[2][0]],
                [self.sample(message(sample)) for sample in one.get(2, [])])

    def sample(self, one):
        value, = varints(one[4][0])
        return {"value": value, "stack": self.stacks[one[1][0]],
                "time": fixed(one[5][0]), "link": self.links[one.get(3, [0])[0]],
                "attributes": dict(self.attributes[at] for at in
                                   varints(one.get(2, [b""])[0]))}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        receiver = self.server.receiver
        body = self.rfile.read(int(self.headers["Content-Length"]))
        packed = self.headers.get("Content-Encoding")
        if packed == "gzip":
            body = gzip.decompress(body)
        receiver.requests.append((self.path, {name.lower(): value for name, value in
                                              self.headers.items()}, body))
        answer = receiver.answers.pop(0) if receiver.answers else (200, {}, b"")
        if answer == "hang":
            receiver.hanging.set()
            receiver.release.wait(60)
            self.close_connection = True
            return
        status, given, said = answer
        if status == 200:
            receiver.taken.append((self.path, body))
        self.send_response(status)
        for name, value in given.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)


class Receiver:
    def __init__(self, answers=()):
        self.answers = list(answers)
        self.requests, self.taken = [], []
        self.hanging, self.release = threading.Event(), threading.Event()

    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.receiver = self
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()

    def bodies(self, path):
        return [body for at, body in self.taken if at == path]


def status_message(text):
    """A google.rpc.Status, as a collector answers."""
    text = text.encode()
    return b"\x08\x03\x12" + bytes([len(text)]) + text


def partial(rejected, text=b"no"):
    inner = b"\x08" + bytes([rejected]) + b"\x12" + bytes([len(text)]) + text
    return b"\x0a" + bytes([len(inner)]) + inner

