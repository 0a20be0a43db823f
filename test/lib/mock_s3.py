# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A bucket server for tests: verifies signatures and digests by its own reading of the rules, and
does wrong on demand. `MockS3(faults=[...])`: one fault a request, in order, then none."""
import base64
import binascii
import contextlib
import datetime
import functools
import hashlib
import hmac
import html
import http.server
import re
import socket
import ssl
import struct
import threading
import time
import urllib.parse

ACCESS, SECRET, TOKEN = "MOCKACCESSKEY", "mock/Secret+Canary=0123456789", "mock-token-canary"
SKEW = datetime.timedelta(minutes=15)
SAFE = "-_.~"


def error_xml(code, extra=""):
    return (f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
            f"<Message>no <b>such</b> thing</Message>{extra}</Error>").encode()


def signature(secret, scope, string):
    key = b"AWS4" + secret.encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, string.encode(), hashlib.sha256).hexdigest()


def check_signature(method, target, headers, region):
    """None, or the code of the error."""
    form = headers.get("authorization", "")
    if not form.startswith("AWS4-HMAC-SHA256 "):
        return "AccessDenied"
    parts = dict(part.strip().split("=", 1) for part in form[17:].split(","))
    access, _, scope = parts["Credential"].partition("/")
    if access != ACCESS:
        return "InvalidAccessKeyId"
    path, _, query = target.partition("?")
    raw = urllib.parse.unquote(path)
    pairs = sorted((urllib.parse.quote(urllib.parse.unquote(k), SAFE),
                    urllib.parse.quote(urllib.parse.unquote(v), SAFE))
                   for k, _, v in (pair.partition("=") for pair in query.split("&") if pair))
    names = parts["SignedHeaders"].split(";")
    for needed in [name for name in headers if name.startswith("x-amz-")] + ["host"]:
        if needed not in names:
            return "AccessDenied"
    canonical = "\n".join([
        method, urllib.parse.quote(raw, "/" + SAFE), "&".join(f"{k}={v}" for k, v in pairs),
        *(f"{name}:{' '.join(headers.get(name, '').split())}" for name in names), "",
        ";".join(names), headers["x-amz-content-sha256"]])
    date = headers["x-amz-date"]
    string = "\n".join(["AWS4-HMAC-SHA256", date, scope,
                        hashlib.sha256(canonical.encode()).hexdigest()])
    if signature(SECRET, scope, string) != parts["Signature"]:
        return "SignatureDoesNotMatch"
    if scope.split("/")[1] != region:
        return "AuthorizationHeaderMalformed"
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def date_time_string(self, timestamp=None):
        return super().date_time_string(time.time() + self.server.mock.ahead_s)

    def fault(self, name):
        """True: the request is done with."""
        mock = self.server.mock
        if name == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                       struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
        elif name == "huge":
            self.send_response(500)
            self.send_header("Content-Length", str(1 << 30))
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"<Cod" * 16384)
                    mock.huge_bytes += 65536
            except OSError:
                pass
            self.close_connection = True
        elif name == "slow":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            mock.hanging.set()
            with contextlib.suppress(OSError):
                while not mock.release.wait(0.01):
                    self.wfile.write(b" ")
            self.close_connection = True
        elif name == "away":
            self.reply(307, error_xml("TemporaryRedirect"), Location=mock.other)
        elif name == "region":
            mock.region = "eu-north-7"
            self.reply(301, error_xml("PermanentRedirect"), x_amz_bucket_region=mock.region)
        elif name == "hang":
            mock.hanging.set()
            mock.release.wait(60)
            self.close_connection = True
        elif name == "lost answer":
            self.reply = lambda *_, **__: None
            getattr(self, "do_" + self.command.lower())()
            self.close_connection = True
            self.connection.close()
        elif name.isdigit():
            self.reply(int(name), error_xml({"503": "SlowDown", "500": "InternalError"}.get(
                name, "Odd")))
        else:
            status, code = name.split(" ")
            self.reply(int(status), error_xml(code))
        return True

    def store(self, body):
        self.server.mock.objects[urllib.parse.unquote(self.path)] = (body, dict(self.given))

    def read_body(self, left):
        """mock.piece: so many bytes a ms; 0: as they come."""
        piece, body = self.server.mock.piece or left, b""
        while len(body) < left:
            got = self.rfile.read(min(piece, left - len(body)))
            if not got:
                break
            body += got
            if self.server.mock.piece:
                time.sleep(0.001)
        return body

    def serve(self):
        mock = self.server.mock
        self.given = {name.lower(): value for name, value in self.headers.items()}
        self.body = self.read_body(int(self.given.get("content-length", "0")))
        time.sleep(mock.delay_s)
        with mock.lock:
            mock.requests.append((self.command, self.path, self.given))
            fault = mock.faults.pop(0) if mock.faults else None
        mock.on_request()
        if fault and self.fault(fault):
            return
        wrong = check_signature(self.command, self.path, self.given, mock.region)
        if wrong:
            self.reply(400 if wrong.startswith("Auth") else 403,
                       error_xml(wrong, f"<Region>{mock.region}</Region>"))
            return
        stamp = datetime.datetime.strptime(self.given["x-amz-date"], "%Y%m%dT%H%M%SZ")
        now = datetime.datetime.utcfromtimestamp(time.time() + mock.ahead_s)
        if abs(now - stamp) > SKEW:
            self.reply(403, error_xml("RequestTimeTooSkewed"))
            return
        getattr(self, "do_" + self.command.lower())()

    do_PUT = do_GET = do_HEAD = do_DELETE = do_POST = serve

    def query(self):
        path, _, query = self.path.partition("?")
        return urllib.parse.unquote(path), dict(urllib.parse.parse_qsl(query, True))

    def do_post(self):
        """The begin and the end of an upload in parts."""
        mock, (key, query) = self.server.mock, self.query()
        if "uploads" in query:
            name = f"upload+/{len(mock.uploads)}="
            mock.uploads[name] = (key, {}, dict(self.given))
            self.reply(200, f"<R><UploadId>{name}</UploadId></R>".encode())
            return
        found = mock.uploads.get(query.get("uploadId"))
        if not found:
            self.reply(404, error_xml("NoSuchUpload"))
            return
        if hashlib.sha256(self.body).hexdigest() != self.given["x-amz-content-sha256"]:
            self.reply(400, error_xml("XAmzContentSHA256Mismatch"))
            return
        named = re.findall(r"<Part><ChecksumCRC32C>(.*?)</ChecksumCRC32C><ETag>(.*?)</ETag>"
                           r"<PartNumber>(\d+)</PartNumber></Part>", self.body.decode())
        kept = [(crc32c(body), mock.etag(body), str(number))
                for number, body in sorted(found[1].items())]
        small = [body for body in list(found[1].values())[:-1] if len(body) < 5 << 20]
        if named != kept or small:
            self.reply(400, error_xml("EntityTooSmall" if small else "InvalidPart"))
        elif self.given.get("if-none-match") == "*" and key in mock.objects:
            self.reply(412, error_xml("PreconditionFailed"))
        elif mock.joins_badly:
            mock.joins_badly -= 1
            self.reply(200, error_xml("InternalError"))
        else:
            mock.objects[key] = (b"".join(body for _, body in sorted(found[1].items())), found[2])
            del mock.uploads[query["uploadId"]]
            self.reply(200, b"<CompleteMultipartUploadResult/>")

    def do_delete(self):
        found = self.server.mock.uploads.pop(self.query()[1].get("uploadId"), None)
        self.reply(204 if found else 404, b"" if found else error_xml("NoSuchUpload"))

    def put_part(self, query):
        mock = self.server.mock
        found = mock.uploads.get(query["uploadId"])
        if not found:
            self.reply(404, error_xml("NoSuchUpload"))
        elif self.given.get("x-amz-checksum-crc32c") != crc32c(self.body):
            self.reply(400, error_xml("BadDigest"))
        else:
            found[1][int(query["partNumber"])] = self.body
            self.reply(200, ETag=mock.etag(self.body))

    def do_put(self):
        if "partNumber" in self.query()[1]:
            self.put_part(self.query()[1])
            return
        mock, key = self.server.mock, urllib.parse.unquote(self.path)
        digest = self.given["x-amz-content-sha256"]
        if "content-length" not in self.given:
            self.reply(411, error_xml("MissingContentLength"))
        elif digest != "UNSIGNED-PAYLOAD" and hashlib.sha256(self.body).hexdigest() != digest:
            self.reply(400, error_xml("XAmzContentSHA256Mismatch"))
        elif self.given.get("if-none-match") == "*" and key in mock.objects:
            self.reply(412, error_xml("PreconditionFailed"))
        else:
            self.store(self.body)
            self.reply(200, ETag='"x"')

    def do_head(self):
        found = self.server.mock.objects.get(urllib.parse.unquote(self.path))
        if not found:
            self.reply(404)
            return
        self.reply(200, Content_Length=str(len(found[0])),
                   **{name.replace("-", "_"): value for name, value in found[1].items()
                      if name.startswith("x-amz-meta-")})

    def do_get(self):
        path, _, query = self.path.partition("?")
        if query:
            self.do_list(urllib.parse.unquote(path).rstrip("/"),
                         dict(urllib.parse.parse_qsl(query, True)))
            return
        self.server.mock.on_get()
        found = self.server.mock.objects.get(urllib.parse.unquote(path))
        if not found:
            self.reply(404, error_xml("NoSuchKey"))
            return
        body, etag = found[0], self.server.mock.etag(found[0])
        if self.given.get("if-match", etag) != etag:
            self.reply(412, error_xml("PreconditionFailed"))
            return
        if "range" not in self.given or not self.server.mock.has_ranges:
            self.reply(200, body, ETag=etag)
            return
        first, _, last = self.given["range"][len("bytes="):].partition("-")
        part = body[int(first):int(last) + 1]
        self.server.mock.sent_bytes += len(part)
        self.reply(206, part, ETag=etag,
                   Content_Range=f"bytes {first}-{int(first) + len(part) - 1}/{len(body)}")

    def do_list(self, path, query):
        """ListObjectsV2, a page of mock.page_keys at most."""
        mock, prefix = self.server.mock, query.get("prefix", "")
        names = sorted(key[len(path) + 1:] for key in mock.objects
                       if key.startswith(f"{path}/{prefix}"))
        cut = query.get("delimiter")
        entries = sorted({name[:name.index(cut, len(prefix)) + 1]
                          if cut and cut in name[len(prefix):] else name for name in names})
        entries = [name for name in entries if name > query.get("continuation-token", "")]
        page, rest = entries[:mock.page_keys], entries[mock.page_keys:]
        is_url = query.get("encoding-type") == "url"
        lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<ListBucketResult xmlns="x">',
                 f"<IsTruncated>{'true' if rest or mock.is_endless else 'false'}</IsTruncated>"]
        if is_url:
            lines.append("<EncodingType>url</EncodingType>")
        if rest or mock.is_endless:
            token = page[-1] if page else "more"
            lines.append("<NextContinuationToken>" + html.escape(token) +
                         "</NextContinuationToken>")
        for name in page:
            shown = html.escape(urllib.parse.quote(name, "/") if is_url else name)
            body = mock.objects.get(f"{path}/{name}", (None,))[0]
            lines.append(f"<CommonPrefixes><Prefix>{shown}</Prefix></CommonPrefixes>"
                         if body is None else
                         f"<Contents><Key>{shown}</Key><Size>{len(body)}</Size>"
                         f"<ETag>{html.escape(mock.etag(body))}</ETag></Contents>")
        self.reply(200, ("".join(lines) + "</ListBucketResult>").encode())


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    mock = None

    def handle_error(self, *_):
        pass


class MockS3:
    def __init__(self, faults=(), certificate=None):
        """certificate: a file with a key and a certificate; then it speaks TLS."""
        self.objects, self.requests, self.faults = {}, [], list(faults)
        self.lock, self.hanging, self.release = (threading.Lock(), threading.Event(),
                                                 threading.Event())
        self.delay_s, self.etags, self.uploads, self.joins_badly = 0, {}, {}, 0
        self.page_keys, self.is_endless, self.has_ranges, self.sent_bytes = 1000, False, True, 0
        self.region, self.other, self.ahead_s, self.huge_bytes = "us-east-1", "", 0, 0
        self.on_request, self.on_get, self.piece = lambda: None, lambda: None, 0
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.mock = self
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.url = self.url.replace("http:", "https:")
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def etag(self, body):
        """Kept: a listing asks for each of them."""
        if id(body) not in self.etags:
            self.etags[id(body)] = (body, f'"{hashlib.md5(body).hexdigest()}"')
        return self.etags[id(body)][1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()

    def environment(self, **more):
        return {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": self.url,
                "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "127.0.0.1", **more}


def crc_table():
    """By the definition."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 & -(byte & 1))
        table.append(byte)
    return table


CRC_TABLE = crc_table()


@functools.lru_cache(64)
def crc32c(data):
    """As the header has it."""
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 255]
    return base64.b64encode(binascii.unhexlify(f"{crc ^ 0xffffffff:08x}")).decode()
