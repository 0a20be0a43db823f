# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Protocol buffers as Python values, decoded without any code of src."""


def fields(data, fixed=bytes):
    """(number, value) of each field; fixed: what a field of eight bytes becomes."""
    at, end = 0, len(data)

    def varint(value):
        """The rest of one whose first byte is this."""
        nonlocal at
        value &= 127
        shift = 7
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    while at < end:
        key = data[at]
        at += 1
        if key > 127:
            key = varint(key)
        kind = key & 7
        if kind == 1:
            yield key >> 3, fixed(data[at:at + 8])
            at += 8
            continue
        value = data[at]
        at += 1
        if value > 127:
            value = varint(value)
        if kind == 2:
            assert at + value <= end
            at += value
            yield key >> 3, data[at - value:at]
        else:
            assert kind == 0, kind
            yield key >> 3, value
