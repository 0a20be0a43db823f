#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Random requests, signed by us and by botocore, the signer of AWS's own tools: each the same.

usage: test_botocore.py SIGN_LINES [--count N] [--seed N]
Skips (77) where botocore is not installed and pip cannot install it into build/botocore.
"""
import argparse
import datetime
import pathlib
import random
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAFE = "-_.~"
LETTERS = ("abcXYZ019-_.~ =:+*/%&?#@!$'(),;[]{}|\\^`\"<>\x01\x7f\u00e4\u20ac\U0001f600")
NOW = datetime.datetime(2026, 5, 18, 12, 30, 0)
DATE = "20260518T123000Z"


def find_botocore():
    try:
        import botocore.auth
    except ImportError:
        place = ROOT / "build" / "botocore"
        sys.path.insert(0, str(place))
        if not (place / "botocore").is_dir():
            done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target",
                                   str(place), "botocore"], capture_output=True, check=False)
            if done.returncode:
                print("botocore is not installed, and pip cannot install it")
                sys.exit(77)
        import botocore.auth
    return botocore


def text(chance, least, most):
    return "".join(chance.choice(LETTERS) for _ in range(chance.randint(least, most)))


def plain(chance, least, most):
    return "".join(chance.choice("abcdefgh0189-") for _ in range(chance.randint(least, most)))


def make(chance):
    headers = {}
    for _ in range(chance.randint(0, 6)):
        value = "".join(chance.choice("abc =:/+,;*\"") for _ in range(chance.randint(1, 20)))
        headers["x-amz-meta-" + plain(chance, 1, 8)] = "v" + value + "v"
    if chance.random() < 0.3:
        headers["x-amz-security-token"] = plain(chance, 20, 400)
    return {"method": chance.choice(("PUT", "GET", "HEAD", "DELETE", "POST")),
            "path": "/" + text(chance, 0, 40),
            "query": [(text(chance, 1, 6), chance.choice(("", text(chance, 0, 9))))
                      for _ in range(chance.randint(0, 5))],
            "headers": headers,
            "host": plain(chance, 1, 12).strip("-") or "h",
            "is_plain": chance.random() < 0.5,
            "body": bytes(chance.randrange(256) for _ in range(chance.randint(0, 50))),
            "access": plain(chance, 16, 20).upper(), "secret": text(chance, 10, 40),
            "region": chance.choice(("us-east-1", "eu-north-7", "auto"))}


def sign_by_botocore(botocore, case):
    import botocore.awsrequest
    import botocore.credentials
    query = "&".join(f"{urllib.parse.quote(k, SAFE)}={urllib.parse.quote(v, SAFE)}"
                     for k, v in case["query"])
    scheme = "http" if case["is_plain"] else "https"
    url = f"{scheme}://{case['host']}.example{urllib.parse.quote(case['path'], '/' + SAFE)}"
    request = botocore.awsrequest.AWSRequest(
        case["method"], url + ("?" + query if query else ""),
        headers={name: value for name, value in case["headers"].items()
                 if name != "x-amz-security-token"}, data=case["body"])
    credentials = botocore.credentials.Credentials(
        case["access"], case["secret"], case["headers"].get("x-amz-security-token"))
    botocore.auth.S3SigV4Auth(credentials, "s3", case["region"]).add_auth(request)
    return request.headers["Authorization"], request.headers["X-Amz-Content-SHA256"]


def line(case, payload):
    def word(value):
        return "x" + value.encode().hex()
    words = [word(value) for value in (case["method"], case["path"], payload, DATE, case["access"],
                                       case["secret"], case["region"])]
    for name, value in case["query"]:
        words += ["q", word(name), word(value)]
    headers = {"host": case["host"] + ".example", "x-amz-date": DATE,
               "x-amz-content-sha256": payload, **case["headers"]}
    for name, value in headers.items():
        words += ["h", word(name), word(value)]
    return " ".join(words)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    botocore = find_botocore()
    if hasattr(botocore.auth, "get_current_datetime"):
        botocore.auth.get_current_datetime = lambda *_args, **_more: NOW
    else:
        class Clock(datetime.datetime):
            @classmethod
            def utcnow(cls):
                return NOW
        botocore.auth.datetime.datetime = Clock
    chance = random.Random(options.seed)
    cases, expected = [make(chance) for _ in range(options.count)], []
    lines = []
    for case in cases:
        authorization, payload = sign_by_botocore(botocore, case)
        expected.append(authorization)
        lines.append(line(case, payload))
    done = subprocess.run([options.program], input="\n".join(lines) + "\n", text=True, check=True,
                          capture_output=True)
    ours = [row.split("\t")[1].replace(",", ", ") for row in done.stdout.splitlines()]
    wrong = [(case, a, b) for case, a, b in zip(cases, expected, ours) if a != b]
    print("1..1")
    for case, theirs, own in wrong[:3]:
        print(f"# {case}\n# botocore {theirs}\n# kymo     {own}")
    print(f"{'not ' if wrong or len(ours) != len(cases) else ''}ok 1 - {len(cases)} requests, "
          f"seed {options.seed}: {len(wrong)} differ")
    return 1 if wrong or len(ours) != len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
