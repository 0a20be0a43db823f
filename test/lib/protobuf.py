# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Protocol buffers as Python values, decoded without any code of src."""


def fields(data, fixed=bytes):
    """(number, value) of each field; fixed: what a field of eight bytes becomes."""
    at, end = 0, len(data)

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < end:
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        elif kind == 1:
            yield key >> 3, fixed(data[at:at + 8])
            at += 8
        else:
            assert kind == 2, kind
            size = varint()
            assert at + size <= end
            yield key >> 3, data[at:at + size]
            at += size
